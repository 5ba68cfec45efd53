// Several barrier objects in turn: three at lines of their own, and an array
// of four that share a line.
#include "common.h"

#define THREADS 3
#define MANY 4
static long rounds;
static pthread_barrier_t one, two, three, many[MANY];

static void *work(void *unused)
{
    for (volatile long round = 0; round < rounds; round++) {
        pthread_barrier_wait(&one);   // SITE one
        pthread_barrier_wait(&two);   // SITE two
        pthread_barrier_wait(&three); // SITE three
        for (volatile int i = 0; i < MANY; i++)
            pthread_barrier_wait(&many[i]); // SITE many
    }
    return unused;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    pthread_t handles[THREADS];
    must(pthread_barrier_init(&one, NULL, THREADS));
    must(pthread_barrier_init(&two, NULL, THREADS));
    must(pthread_barrier_init(&three, NULL, THREADS));
    for (int i = 0; i < MANY; i++)
        must(pthread_barrier_init(&many[i], NULL, THREADS));
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
