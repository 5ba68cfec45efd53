// One half of a table is rebuilt in fresh memory: whoever has that half has the page faults.
//
// run: -e page-faults,context-switches,task-clock
// must: dynamic imbalance at worker fresh_pages.c: | page faults: the kernel takes
// must: has more page-faults, | page faults: the kernel takes
// never: static imbalance
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define THREADS 2
#define PAGE 4096
static long bytes = 12l << 20;
static pthread_barrier_t barrier;
static volatile double sink;
static void push(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void rebuild(long size)
{
    char *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        exit(1);
    madvise(fresh, size, MADV_NOHUGEPAGE);
    for (long at = 0; at < size; at += PAGE)
        fresh[at] = 1;
    munmap(fresh, size);
}
static void *worker(void *argument)
{
    unsigned me = (unsigned)(long)argument;
    for (unsigned step = 0; step < 200; step++) {
        unsigned any = step * 2654435761u >> 7;
        unsigned heavy = (any ^ any >> 9) % THREADS;
        push(1000000);
        // Some tables are larger than others.
        if (heavy == me)
            rebuild(bytes / 4 * (1 + any % 4));
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}
int main(int argc, char **argv)
{
    if (argc > 1)
        bytes = atol(argv[1]) << 20;
    pthread_t others[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 1; i < THREADS; i++)
        pthread_create(&others[i], NULL, worker, (void *)i);
    worker((void *)0);
    for (long i = 1; i < THREADS; i++)
        pthread_join(others[i], NULL);
    return 0;
}
