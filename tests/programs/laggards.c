// All threads end together, by raise=SIGNAL or without, and those that are not the first may be late with it: they run
// on one CPU when nobody else wants it.
#include "common.h"
#include <sched.h>

#define LAGGARDS 8
static pthread_barrier_t barrier;

static void meet(void)
{
    for (volatile int round = 0; round < 20; round++)
        pthread_barrier_wait(&barrier); // SITE together
}

static void *work(void *ignored)
{
    meet();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0 ||
        sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}) != 0) {
        perror("laggards");
        exit(1);
    }
    pthread_barrier_wait(&barrier); // SITE last
    for (;;)
        pause();
    return ignored;
}

int main(int argc, char **argv)
{
    must(pthread_barrier_init(&barrier, NULL, LAGGARDS + 1));
    for (int i = 0; i < LAGGARDS; i++) {
        pthread_t handle;
        must(pthread_create(&handle, NULL, work, NULL));
    }
    meet();
    pthread_barrier_wait(&barrier);
    long deadly = option(argc, argv, "raise", 0);
    if (deadly > 0)
        raise((int)deadly);
    return 0;
}
