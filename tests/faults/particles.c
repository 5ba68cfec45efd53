// Particles move between two halves at random: another thread has more to do each time.
//
// must: dynamic imbalance at worker particles.c:
// never: static imbalance
// never: T0 
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void push(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    unsigned me = (unsigned)(long)argument;
    for (unsigned step = 0; step < 80; step++) {
        unsigned any = step * 2654435761u >> 7;
        unsigned heavy = (any ^ any >> 9) % THREADS;
        push(heavy == me ? 5000000 : 1000000);
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
