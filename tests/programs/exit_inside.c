// Ends the process while all others wait: after rounds=N whole rounds main
// calls exit(3) instead of arriving. With crash=1 it writes to address 0, with
// lone=1 it waits for ever instead.
#include "common.h"

#define THREADS 4
static long rounds;
static pthread_barrier_t barrier;

static void *work(void *unused)
{
    for (volatile long round = 0;; round++)
        pthread_barrier_wait(&barrier); // SITE worker
    return unused;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 20);
    pthread_t handles[THREADS];
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    for (int i = 1; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    for (volatile long round = 0; round < rounds; round++)
        pthread_barrier_wait(&barrier); // SITE main
    sleep_us(option(argc, argv, "delay", 200000));
    printf("ready\n");
    fflush(stdout);
    if (option(argc, argv, "lone", 0))
        for (;;)
            pause();
    if (option(argc, argv, "crash", 0))
        *(volatile int *)0 = 1;
    exit(3);
}
