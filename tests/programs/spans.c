// Two teams of two threads, each with a barrier of its own, that do the same in
// turns: work between two lines takes 10 ms. The second is 5 ms late.
//
// spans [rounds=10]
#include "common.h"

static long rounds;

static void *work(void *argument)
{
    pthread_barrier_t *barrier = argument;
    for (volatile long round = 0; round < rounds; round++) {
        pthread_barrier_wait(barrier); // SITE begin
        sleep_us(10000);
        pthread_barrier_wait(barrier); // SITE end
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 10);
    pthread_t handles[4];
    pthread_barrier_t teams[2];
    for (int team = 0; team < 2; team++)
        must(pthread_barrier_init(&teams[team], NULL, 2));
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            sleep_us(5000);
        must(pthread_create(&handles[i], NULL, work, &teams[i / 2]));
    }
    for (int i = 0; i < 4; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
