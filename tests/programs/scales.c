// A program with a phase that scales, one that is serial, and one in which a lock lets
// threads work only one after the other.
//
// scales [threads=2] [rounds=20]
//        [even=US]       divided by the number of threads: each does its part
//        [serial=US]     done by thread 0 alone
//        [locked=US]     divided by the number of threads, under one lock
//        [skip=1]        without barriers where there is one thread
//        [fail=N]        with N threads the exit status is 3
//        [until=N]       with N threads it does not end by itself
#include "common.h"

static long threads, rounds, even, serial, locked, skip;
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Sleeps: that scales on any number of CPUs, and not where somebody else sleeps first.
static void *work(void *argument)
{
    long me = (long)argument;
    for (long round = 0; round < rounds; round++) {
        sleep_us(even / threads);
        if (!skip)
            pthread_barrier_wait(&barrier); // SITE even
        if (me == 0)
            sleep_us(serial);
        if (!skip)
            pthread_barrier_wait(&barrier); // SITE serial
        pthread_mutex_lock(&lock);
        sleep_us(locked / threads);
        pthread_mutex_unlock(&lock);
        if (!skip)
            pthread_barrier_wait(&barrier); // SITE locked
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *of_environment = getenv("SCALES_THREADS");
    threads = option(argc, argv, "threads", of_environment ? atol(of_environment) : 2);
    rounds = option(argc, argv, "rounds", 20);
    even = option(argc, argv, "even", 4000);
    serial = option(argc, argv, "serial", 1000);
    locked = option(argc, argv, "locked", 1000);
    skip = threads == 1 && option(argc, argv, "skip", 0);
    printf("threads %ld\n", threads);
    fflush(stdout);
    while (option(argc, argv, "until", 0) == threads)
        sleep_us(10000);

    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    for (long i = 1; i < threads; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    work(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(handles[i], NULL));
    return option(argc, argv, "fail", 0) == threads ? 3 : 0;
}
