// Two threads count into one table, whose read-write lock each takes for writing.
//
// must: contended lock: threads wait
// must: the read-write lock at count histo_rwlock.c:
// never: imbalance at
#include <pthread.h>
#include <stdio.h>
enum { THREADS = 2, STEPS = 45 };
static pthread_barrier_t done;
static pthread_rwlock_t guard = PTHREAD_RWLOCK_INITIALIZER;
static long bins[256]; static volatile double sink;
static void count(long me)
{
    unsigned s = me + 1;
    for (int i = 0; i < 300; i++) {
        pthread_rwlock_wrlock(&guard);
        for (int k = 0; k < 20000; k++) { s = s * 1664525 + 1013904223; bins[s >> 24]++; }
        pthread_rwlock_unlock(&guard);
    }
}
static void *worker(void *arg)
{
    for (int s = 0; s < STEPS; s++) { count((long)arg); pthread_barrier_wait(&done); }
    return NULL;
}
int main(void)
{
    pthread_barrier_init(&done, NULL, THREADS);
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    printf("%ld\n", bins[0]);
}
