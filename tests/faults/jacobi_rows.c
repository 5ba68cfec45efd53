// Jacobi sweeps over a grid: the last thread also gets all rows that do not divide evenly.
//
// must: static imbalance at worker jacobi_rows.c:
// must: T1 
// never: instructions
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void relax(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    long me = (long)argument;
    long rows = me == THREADS - 1 ? 6 : 2;
    for (int sweep = 0; sweep < 50; sweep++) {
        for (long row = 0; row < rows; row++)
            relax(1000000);
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
