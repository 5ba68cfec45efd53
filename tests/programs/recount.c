// One barrier object that is destroyed and made again with another number of
// participants, many times. Between, all threads meet at a barrier that stays.
#include "common.h"

#define THREADS 4
static long rounds;
static pthread_barrier_t changing, all;

static void *work(void *argument)
{
    long me = (long)argument;
    for (volatile long round = 0; round < rounds; round++) {
        long count = 2 + round % (THREADS - 1);
        if (me == 0)
            must(pthread_barrier_init(&changing, NULL, (unsigned)count));
        pthread_barrier_wait(&all); // SITE before
        if (me < count)
            for (volatile int twice = 0; twice < 2; twice++)
                pthread_barrier_wait(&changing); // SITE changing
        pthread_barrier_wait(&all); // SITE after
        if (me == 0)
            must(pthread_barrier_destroy(&changing));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 90);
    pthread_t handles[THREADS];
    must(pthread_barrier_init(&all, NULL, THREADS));
    for (long i = 0; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    for (long i = 0; i < THREADS; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
