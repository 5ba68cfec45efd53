// Two workers take jobs from a counter. There is no barrier, and both are bound to one CPU.
//
// must: bound to too few CPUs
// must: may only run on CPU 0
// never: other processes take the CPUs
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { WORKERS = 2, JOBS = 600 };
static atomic_int next;
static double results[JOBS];

static void bind_to_first(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *work(void *argument)
{
    bind_to_first();
    for (int job; (job = atomic_fetch_add(&next, 1)) < JOBS;) {
        double x = job;
        for (int step = 0; step < 400000; step++)
            x = x * 0.999999 + 0.5;
        results[job] = x;
    }
    return argument;
}

int main(void)
{
    pthread_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    printf("%g\n", results[JOBS - 1]);
    return 0;
}
