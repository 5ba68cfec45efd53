// A producer and a consumer mix up two condition variables, beside a thread that only sleeps again and
// again, for longer than a look takes.
// build: gcc -O2 -g -pthread
// build: gcc -O0 -g -pthread
// outcome: hung
// must: no thread of the process is left that could wake it
// must: spins in an endless loop, and sleeps in each turn
// never: waits for something outside of it
// never: what it does after that is not known
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static int there;
static void *produce(void *unused) {
    usleep(50000);
    for (;;) {
        pthread_mutex_lock(&door);
        while (there == 4)
            pthread_cond_wait(&not_full, &door);
        there++;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&door);
    }
    return unused;
}
static void *consume(void *unused) {
    for (;;) {
        pthread_mutex_lock(&door);
        while (there == 0)
            pthread_cond_wait(&not_empty, &door);
        there--;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&door);
    }
    return unused;
}
static void *beat(void *unused) {
    for (;;)
        sleep(3);
    return unused;
}
int main(void) {
    pthread_t beats, consumes, produces;
    pthread_create(&beats, NULL, beat, NULL);
    pthread_create(&consumes, NULL, consume, NULL);
    pthread_create(&produces, NULL, produce, NULL);
    pthread_join(produces, NULL);
    return pthread_join(consumes, NULL);
}
