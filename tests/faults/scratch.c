// Every step maps fresh memory, touches each page once and unmaps it.
//
// must: page faults: the kernel takes
// never: imbalance at
// never: serial
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#define BYTES (16L << 20)
#define THREADS 2
static pthread_barrier_t barrier;
static volatile double sink;
static void transform(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static void *worker(void *argument)
{
    for (int step = 0; step < 60; step++) {
        char *scratch = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (scratch == MAP_FAILED)
            abort();
        for (long at = 0; at < BYTES; at += 4096)
            scratch[at] = 1;
        munmap(scratch, BYTES);
        transform(100000);
        pthread_barrier_wait(&barrier);
    }
    return argument;
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
