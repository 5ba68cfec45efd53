// All threads wait for their sensor in every step, and compute little.
//
// must: asleep in the work:
// must: usleep called from worker sensors.c:
// never: imbalance
// never: T0 
// never: T1 
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void evaluate(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    for (int step = 0; step < 50; step++) {
        usleep(8000); // the sensor
        evaluate(500000);
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
