// Threads that come and go: waves of them, created and joined, each wave using
// the one barrier a few times.
#include "common.h"

static long rounds;
static pthread_barrier_t barrier;

static void *work(void *unused)
{
    for (volatile long round = 0; round < rounds; round++)
        pthread_barrier_wait(&barrier); // SITE wave
    return unused;
}

int main(int argc, char **argv)
{
    long waves = option(argc, argv, "waves", 100);
    long threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 5);
    pthread_t handles[64];
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    for (long wave = 0; wave < waves; wave++) {
        for (long i = 0; i < threads; i++)
            must(pthread_create(&handles[i], NULL, work, NULL));
        for (long i = 0; i < threads; i++)
            must(pthread_join(handles[i], NULL));
    }
    return 0;
}
