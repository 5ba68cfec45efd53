// A stencil on a tiny grid: a barrier after some hundred cells.
//
// run: SBT_BUDGET=off
// must: phase too short for its barrier at worker tiny_grid.c:
// never: imbalance
// never: 5 threads
// never: 3 threads
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void stencil(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    for (int step = 0; step < 30000; step++) {
        stencil(300);
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
