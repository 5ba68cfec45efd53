// Two threads lock two mutexes in opposite order, beside a thread that shows a number for ever.
// build: gcc -O2 -g -pthread
// build: gcc -O0 -g -pthread -DPAUSE=20000
// busy: yes
// outcome: hung
// must: they wait for each other for ever
// must: spins in an endless loop
// never: until its memory changes
// never: until done
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t debit = PTHREAD_MUTEX_INITIALIZER, credit = PTHREAD_MUTEX_INITIALIZER;
static volatile long done, shown;
static void *show(void *unused) {
    for (;;) {
        shown = done;
#ifdef PAUSE
        usleep(PAUSE);
#endif
    }
    return unused;
}
static void move(pthread_mutex_t *from, pthread_mutex_t *to) {
    pthread_mutex_lock(from);
    usleep(50000);
    pthread_mutex_lock(to);
    done++;
    pthread_mutex_unlock(to);
    pthread_mutex_unlock(from);
}
static void *forth(void *unused) {
    move(&debit, &credit);
    return unused;
}
int main(void) {
    pthread_t shows, moves;
    pthread_create(&shows, NULL, show, NULL);
    pthread_create(&moves, NULL, forth, NULL);
    move(&credit, &debit);
    return pthread_join(moves, NULL);
}
