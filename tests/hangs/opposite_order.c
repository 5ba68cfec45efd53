// Two threads take two locks in opposite order.
// build: gcc -O2 -g -pthread
// build: gcc -O0 -g -pthread
// build: gcc -O2 -pthread -s
// outcome: hung
// must: wait for each other for ever
// never: no circle of waits
// never: not known
#include <pthread.h>
static pthread_mutex_t from = PTHREAD_MUTEX_INITIALIZER, to = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static void *transfer(void *which) {
    pthread_mutex_t *first = which ? &from : &to, *second = which ? &to : &from;
    pthread_mutex_lock(first);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
    return NULL;
}
int main(void) {
    pthread_t all[2];
    pthread_barrier_init(&both, NULL, 2);
    for (long i = 0; i < 2; i++)
        pthread_create(&all[i], NULL, transfer, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(all[i], NULL);
    return 0;
}
