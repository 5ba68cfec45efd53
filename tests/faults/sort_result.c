// After the last step the first thread sorts the result alone; the others have ended.
//
// must: serial end: T0 
// never: serial start
// never: imbalance at
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void filter(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    for (int step = 0; step < 60; step++) {
        filter(4000000);
        pthread_barrier_wait(&barrier);
    }
    if (argument == NULL)
        filter(250000000);
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
