// One barrier, used directly and inside of a function that is a barrier too.
//
// shared [rounds=50]
#include "common.h"

#define THREADS 3
static long rounds;
static pthread_barrier_t barrier;
static _Thread_local volatile long passed;

__attribute__((noinline)) void inside(int count)
{
    pthread_barrier_wait(&barrier);
    passed += count;
}

static void *work(void *argument)
{
    for (long round = 0; round < rounds; round++) {
        sleep_us(50 * ((round + (long)argument) % THREADS));
        pthread_barrier_wait(&barrier); // SITE outside
        inside(THREADS); // SITE inside
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i));
    for (long i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL));
    return 0;
}
