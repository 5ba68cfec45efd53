// Two threads that take a mutex again and again, briefly: they hardly ever sleep for it, and are
// often woken on their way to sleep.
//
// briefly [rounds=100000] [steps=1000]
#include "common.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long rounds, steps;
static volatile long sum;

static void *run(void *argument)
{
    long me = (long)argument;
    for (long round = 0; round < rounds; round++) {
        long own = me;
        for (long step = 0; step < steps; step++) {
            own = own * 3 + step;
            __asm__ volatile("" : "+r"(own));
        }
        pthread_mutex_lock(&mutex); // SITE lock
        sum += own;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 100000);
    steps = option(argc, argv, "steps", 1000);
    pthread_t all[2];
    for (long me = 0; me < 2; me++)
        pthread_create(&all[me], NULL, run, (void *)me);
    for (long me = 0; me < 2; me++)
        pthread_join(all[me], NULL);
    return 0;
}
