// A simulation that writes a checkpoint in every step: the first thread waits for the disk.
//
// must: asleep before worker checkpoint.c:
// must: T0 
// never: static imbalance
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void advance(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void checkpoint(int file)
{
    if (pwrite(file, (const void *)&sink, sizeof sink, 0) < 0 || fsync(file) != 0)
        abort();
    usleep(5000); // a slow disk
}
static void *worker(void *argument)
{
    long me = (long)argument;
    FILE *file = me == 0 ? tmpfile() : NULL;
    for (int step = 0; step < 60; step++) {
        advance(1000000);
        if (file)
            checkpoint(fileno(file));
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
