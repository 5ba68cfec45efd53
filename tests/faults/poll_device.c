// The second thread polls for a result with pauses.
//
// must: asleep before worker poll_device.c:
// must: T1 
// never: static imbalance
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void process(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void await_device(void)
{
    for (int poll = 0; poll < 3; poll++)
        usleep(2000);
}
static void *worker(void *argument)
{
    for (int step = 0; step < 50; step++) {
        process(1000000);
        if (argument)
            await_device();
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
