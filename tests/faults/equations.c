// Twenty equations, each with a barrier of its own: a little is lost at each, always by the same thread.
//
// must: late at 20 places
// must: waits for T1
// never: dynamic imbalance
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void kernel(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    long work = (long)argument == 1 ? 2000000 : 1000000;
    for (int step = 0; step < 12; step++) {
        kernel(work); pthread_barrier_wait(&barrier); // equation 0
        kernel(work); pthread_barrier_wait(&barrier); // equation 1
        kernel(work); pthread_barrier_wait(&barrier); // equation 2
        kernel(work); pthread_barrier_wait(&barrier); // equation 3
        kernel(work); pthread_barrier_wait(&barrier); // equation 4
        kernel(work); pthread_barrier_wait(&barrier); // equation 5
        kernel(work); pthread_barrier_wait(&barrier); // equation 6
        kernel(work); pthread_barrier_wait(&barrier); // equation 7
        kernel(work); pthread_barrier_wait(&barrier); // equation 8
        kernel(work); pthread_barrier_wait(&barrier); // equation 9
        kernel(work); pthread_barrier_wait(&barrier); // equation 10
        kernel(work); pthread_barrier_wait(&barrier); // equation 11
        kernel(work); pthread_barrier_wait(&barrier); // equation 12
        kernel(work); pthread_barrier_wait(&barrier); // equation 13
        kernel(work); pthread_barrier_wait(&barrier); // equation 14
        kernel(work); pthread_barrier_wait(&barrier); // equation 15
        kernel(work); pthread_barrier_wait(&barrier); // equation 16
        kernel(work); pthread_barrier_wait(&barrier); // equation 17
        kernel(work); pthread_barrier_wait(&barrier); // equation 18
        kernel(work); pthread_barrier_wait(&barrier); // equation 19
    }
    return NULL;
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
