// Two threads lock two mutexes in opposite order, beside a thread that wakes for a heartbeat. With musl
// nothing records who holds a mutex.
// build: musl-gcc -O2 -g -pthread
// outcome: unknown
// must: waits for the mutex
// must: it is not recorded who holds it
// never: waits for something outside of it
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t debit = PTHREAD_MUTEX_INITIALIZER, credit = PTHREAD_MUTEX_INITIALIZER;
static volatile long beats;
static void *beat(void *unused) {
    for (;;) {
        beats++;
        sleep(1);
    }
    return unused;
}
static void move(pthread_mutex_t *from, pthread_mutex_t *to) {
    pthread_mutex_lock(from);
    usleep(50000);
    pthread_mutex_lock(to);
    pthread_mutex_unlock(to);
    pthread_mutex_unlock(from);
}
static void *forth(void *unused) {
    move(&debit, &credit);
    return unused;
}
int main(void) {
    pthread_t beats_on, moves;
    pthread_create(&beats_on, NULL, beat, NULL);
    pthread_create(&moves, NULL, forth, NULL);
    move(&credit, &debit);
    return pthread_join(moves, NULL);
}
