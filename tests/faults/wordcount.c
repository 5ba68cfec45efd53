// Words are counted in one table behind one lock, which all hold for most of the time.
//
// must: contended lock: threads wait
// must: for the mutex locked at
// must: wordcount.c:
// never: static imbalance
// never: dynamic imbalance
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void hash(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static void *worker(void *argument)
{
    for (int chunk = 0; chunk < 30; chunk++) {
        for (int word = 0; word < 4; word++) {
            pthread_mutex_lock(&table);
            hash(2000000);
            pthread_mutex_unlock(&table);
            hash(1000);
        }
        pthread_barrier_wait(&barrier);
    }
    return argument;
}
int main(void)
{
    pthread_t others[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 1; i < THREADS; i++)
        pthread_create(&others[i], NULL, worker, (void *)i);
    worker((void *)0);
    for (long i = 1; i < THREADS; i++)
        pthread_join(others[i], NULL);
    return 0;
}
