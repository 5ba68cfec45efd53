// Two threads that meet round after round; the first writes a line long before and long after.
//
// prints [rounds=4] [pause=200000]   us between a line and the barrier
#include "common.h"

static long rounds, apart;
static pthread_barrier_t barrier;

static void *work(void *first)
{
    for (long round = 1; round <= rounds; round++) {
        if (first) {
            printf("before %ld\n", round);
            fflush(stdout);
            sleep_us(apart);
        }
        pthread_barrier_wait(&barrier); // SITE meet
        if (first) {
            sleep_us(apart);
            printf("after %ld\n", round);
            fflush(stdout);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 4);
    apart = option(argc, argv, "pause", 200000);
    must(pthread_barrier_init(&barrier, NULL, 2));
    pthread_t other;
    must(pthread_create(&other, NULL, work, NULL));
    work("first");
    must(pthread_join(other, NULL));
    return 0;
}
