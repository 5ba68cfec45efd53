// The main thread starts a team for each step and works alone between two teams.
//
// must: serial part: the main thread works alone
// never: imbalance at
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void tiles(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    for (int part = 0; part < 4; part++) {
        tiles(6000000);
        pthread_barrier_wait(&barrier);
    }
    return argument;
}
static void step(void)
{
    pthread_t team[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&team[i], NULL, worker, NULL);
    for (long i = 0; i < THREADS; i++)
        pthread_join(team[i], NULL);
    tiles(60000000); // alone
}
int main(void)
{
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < 6; i++)
        step();
    return 0;
}
