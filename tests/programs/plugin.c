// A shared library whose one function is a loop with a barrier.
#include "common.h"

static long rounds;
static pthread_barrier_t barrier;

static void *plugin_loop(void *unused)
{
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(500);
        pthread_barrier_wait(&barrier); // SITE plugin
    }
    return unused;
}

void plugin_run(long threads, long how_many)
{
    pthread_t handles[64];
    rounds = how_many;
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    for (long i = 0; i < threads; i++)
        must(pthread_create(&handles[i], NULL, plugin_loop, NULL));
    for (long i = 0; i < threads; i++)
        must(pthread_join(handles[i], NULL));
}
