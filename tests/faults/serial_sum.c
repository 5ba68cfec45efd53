// All threads make partial sums, and the first adds them up alone while the others wait.
//
// must: serial phase before worker serial_sum.c:
// must: T0 
// never: dynamic imbalance
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void sum(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    long me = (long)argument;
    for (int step = 0; step < 50; step++) {
        sum(2000000);
        pthread_barrier_wait(&barrier);
        if (me == 0)
            sum(5000000);
        pthread_barrier_wait(&barrier);
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
