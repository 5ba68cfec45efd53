// A program whose setup and end use the barriers of its main part, with another imbalance: the
// second thread is late in both, the first one in between.
//
// window [setup=30] [main=20] [end=10] [parts=1]
//
// Prints when the main part begins and when the end begins, ns of CLOCK_MONOTONIC.
#include "common.h"

static pthread_barrier_t barrier;
static long setup, rounds, end, parts;

static void round_of(long who, long late)
{
    spin_us(who == late ? 2000 : 500);
    pthread_barrier_wait(&barrier); // SITE all
}

__attribute__((noinline)) static void solve(void)
{
    printf("solve %lu\n", (unsigned long)now_ns());
}

__attribute__((noinline)) static void finish(void)
{
    printf("finish %lu\n", (unsigned long)now_ns()); // LINE finish
}

__attribute__((noinline, used)) static void never(void)
{
    printf("never\n");
}

static void *work(void *argument)
{
    long who = argument != NULL;
    for (long i = 0; i < setup; i++)
        round_of(who, 1);
    for (long part = 0; part < parts; part++) {
        if (who == 0)
            solve();
        for (long i = 0; i < rounds; i++)
            round_of(who, 0);
        if (who == 0)
            finish();
        for (long i = 0; i < end; i++)
            round_of(who, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    setup = option(argc, argv, "setup", 30);
    rounds = option(argc, argv, "main", 20);
    end = option(argc, argv, "end", 10);
    parts = option(argc, argv, "parts", 1);
    must(pthread_barrier_init(&barrier, NULL, 2));
    pthread_t other;
    must(pthread_create(&other, NULL, work, &other));
    work(NULL);
    must(pthread_join(other, NULL));
    return 0;
}
