// A heat equation on a rod, in slices. By mistake every worker binds itself to the first CPU.
// fault: workers 0 and 1 may run on CPU 0 only.
// must: may only run on CPU 0
// must: CPU 1 is not allowed to them
// never: static imbalance
// never: too short
// never: other processes take
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 1 << 15, WORKERS = 2 };
static double now[CELLS + 2], next[CELLS + 2];
static pthread_barrier_t step;
static int steps = 400;

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *slice(void *arg)
{
    long me = (long)arg;
    bind_to(0); // was meant to be bind_to(me)
    long from = 1 + me * (CELLS / WORKERS), to = from + CELLS / WORKERS;
    for (int s = 0; s < steps; s++) {
        for (int again = 0; again < 120; again++)
            for (long i = from; i < to; i++)
                next[i] = now[i] + 0.1 * (now[i - 1] - 2 * now[i] + now[i + 1]);
        pthread_barrier_wait(&step);
        for (long i = from; i < to; i++)
            now[i] = next[i];
        pthread_barrier_wait(&step);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        steps = atoi(argv[1]);
    now[CELLS / 2] = 1e6;
    pthread_t workers[WORKERS];
    pthread_barrier_init(&step, NULL, WORKERS);
    for (long w = 0; w < WORKERS; w++)
        pthread_create(&workers[w], NULL, slice, (void *)w);
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    printf("%g\n", now[CELLS / 2]);
    return 0;
}
