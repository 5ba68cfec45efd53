// A thread gets its items from a pipe that a slow producer fills.
//
// must: asleep before worker pipe_feed.c:
// must: T1 
// never: static imbalance
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void decode(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static int ends[2];
static void *feed(void *argument)
{
    for (int item = 0; item < 60; item++) {
        usleep(7000);
        if (write(ends[1], "x", 1) != 1)
            abort();
    }
    return argument;
}
static void *worker(void *argument)
{
    for (int item = 0; item < 60; item++) {
        char byte;
        if (argument && read(ends[0], &byte, 1) != 1)
            abort();
        decode(1000000);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}
int main(void)
{
    pthread_t others[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t producer;
    if (pipe(ends) != 0)
        return 1;
    pthread_create(&producer, NULL, feed, NULL);
    for (long i = 1; i < THREADS; i++)
        pthread_create(&others[i], NULL, worker, (void *)i);
    worker((void *)0);
    for (long i = 1; i < THREADS; i++)
        pthread_join(others[i], NULL);
    pthread_join(producer, NULL);
    return 0;
}
