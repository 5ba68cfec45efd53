// Teams of two, each with its own barrier, all waiting at one line. The first
// thread of an even team comes late, and the second one of an odd team.
#include "common.h"

#define TEAMS 3
static long rounds;
static pthread_barrier_t barriers[TEAMS];

static void *work(void *argument)
{
    long team = (long)argument / 2, me = (long)argument % 2;
    for (long round = 0; round < rounds; round++) {
        sleep_us(team % 2 == me ? 4000 : 500);
        pthread_barrier_wait(&barriers[team]); // SITE team
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 40);
    pthread_t handles[2 * TEAMS];
    for (long i = 0; i < TEAMS; i++)
        must(pthread_barrier_init(&barriers[i], NULL, 2));
    for (long i = 0; i < 2 * TEAMS; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    for (long i = 0; i < 2 * TEAMS; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
