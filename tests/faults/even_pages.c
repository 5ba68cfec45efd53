// Both halves are rebuilt in fresh memory by as much; another thread has more to do each time.
//
// run: -e page-faults,context-switches,task-clock
// must: dynamic imbalance at worker even_pages.c:
// never: page-faults
// never: context-switches
// never: task-clock
// never: static imbalance
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define THREADS 2
#define BYTES (6l << 20)
#define PAGE 4096
static pthread_barrier_t barrier;
static volatile double sink;
static void push(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void rebuild(long bytes)
{
    char *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        exit(1);
    madvise(fresh, bytes, MADV_NOHUGEPAGE);
    for (long at = 0; at < bytes; at += PAGE)
        fresh[at] = 1;
    munmap(fresh, bytes);
}
static void *worker(void *argument)
{
    unsigned me = (unsigned)(long)argument;
    for (unsigned step = 0; step < 200; step++) {
        unsigned any = step * 2654435761u >> 7;
        unsigned heavy = (any ^ any >> 9) % THREADS;
        push(heavy == me ? 1000000 + 500000 * (1 + any % 4) : 1000000);
        rebuild(BYTES / 32 * (1 + any % 4));
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
