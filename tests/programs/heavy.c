// Phases of a fixed amount of work. In every other one of two threads passes a mark
// often: what that costs is known, and how long the same work takes without it.
#include "common.h"

#include <sched.h>

static pthread_barrier_t barrier;
static long rounds, work, hits;

// Begins with an instruction that the kernel single-steps.
__attribute__((noinline, noipa)) long tick(long x)
{
    return x + 8;
}

static volatile long sink[2 * 64];

// So many steps, however long they take. They lie once in the program and keep to
// registers: copies of a loop, and memory, are up to twice as fast here as there.
__attribute__((noinline, noipa)) static void steps(long me, long count)
{
    long sum = me;
    for (long i = 0; i < count; i++) {
        sum = sum * 3 + i;
        __asm__ volatile("" : "+r"(sum));
    }
    sink[me * 64] = sum;
}

static void *run(void *argument)
{
    long me = (long)argument;
    // On one CPU the one could only begin when the other waits.
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(me, &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    for (long round = 0; round < rounds; round++) {
        // The one that has more to do pays as well.
        steps(me, me == 0 ? work : work / 2);
        pthread_barrier_wait(&barrier); // SITE plain
        steps(me, me == 0 ? work : work / 2);
        for (long hit = 0; me == 0 && hit < hits; hit++)
            sink[me * 64] = tick(hit);
        pthread_barrier_wait(&barrier); // SITE paid
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 500);
    work = option(argc, argv, "work", 300000);
    hits = option(argc, argv, "hits", 20);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t other;
    uint64_t start = now_ns();
    pthread_create(&other, NULL, run, (void *)1);
    run((void *)0);
    pthread_join(other, NULL);
    printf("%lu\n", (unsigned long)(now_ns() - start));
    return 0;
}
