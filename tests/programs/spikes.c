// Rounds of 2 ms, of which few take 60 ms: then one of the three threads sleeps.
//
// spikes [rounds=1500] [late=300] [again=1200]  also the round after `late` is late
#include "common.h"

static pthread_barrier_t barrier;
static long rounds, late, again;

static void *work(void *argument)
{
    long me = (long)argument;
    for (long round = 0; round < rounds; round++) {
        int is_late = round == late || round == late + 1 || round == again;
        sleep_us(is_late && me == 1 ? 60000 : 2000);
        pthread_barrier_wait(&barrier); // SITE meet
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 1500);
    late = option(argc, argv, "late", 300);
    again = option(argc, argv, "again", 1200);
    must(pthread_barrier_init(&barrier, NULL, 3));
    pthread_t all[2];
    for (long i = 0; i < 2; i++)
        must(pthread_create(&all[i], NULL, work, (void *)(i + 1)));
    work(NULL);
    for (long i = 0; i < 2; i++)
        must(pthread_join(all[i], NULL));
    return 0;
}
