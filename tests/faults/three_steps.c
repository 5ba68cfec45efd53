// Three long steps, each with a barrier of its own: the second thread is late at each.
//
// must: waits for T1
// must: late at 3 places
// never: too few
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void forces(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    long me = (long)argument;
    pthread_barrier_wait(&barrier);
    forces(me == 1 ? 150000000 : 60000000);
    pthread_barrier_wait(&barrier); // forces
    forces(me == 1 ? 180000000 : 60000000);
    pthread_barrier_wait(&barrier); // positions
    forces(me == 1 ? 100000000 : 40000000);
    pthread_barrier_wait(&barrier); // energy
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
