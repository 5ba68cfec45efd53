// The main thread makes the input before it starts the workers, and only joins them then.
//
// must: serial start: the main thread works alone
// never: serial end
// never: imbalance at
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void solve(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    for (int step = 0; step < 60; step++) {
        solve(4000000);
        pthread_barrier_wait(&barrier);
    }
    return argument;
}
int main(void)
{
    pthread_t others[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    solve(250000000); // the input
    for (long i = 0; i < THREADS; i++)
        pthread_create(&others[i], NULL, worker, (void *)i);
    for (long i = 0; i < THREADS; i++)
        pthread_join(others[i], NULL);
    return 0;
}
