// Two teams of different size at once, each with a barrier of its own, and
// one barrier for all. Team A of 3 meets 5 times per round, team B of 2 7 times.
#include "common.h"

static long rounds;
static pthread_barrier_t team_a, team_b, everyone;

static void *work(void *argument)
{
    long me = (long)argument;
    for (volatile long round = 0; round < rounds; round++) {
        if (me < 3)
            for (volatile int i = 0; i < 5; i++) {
                sleep_us(20 * me);
                pthread_barrier_wait(&team_a); // SITE a
            }
        else
            for (volatile int i = 0; i < 7; i++) {
                sleep_us(20 * me);
                pthread_barrier_wait(&team_b); // SITE b
            }
        pthread_barrier_wait(&everyone); // SITE everyone
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 40);
    pthread_t handles[5];
    must(pthread_barrier_init(&team_a, NULL, 3));
    must(pthread_barrier_init(&team_b, NULL, 2));
    must(pthread_barrier_init(&everyone, NULL, 5));
    for (long i = 0; i < 5; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    for (long i = 0; i < 5; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
