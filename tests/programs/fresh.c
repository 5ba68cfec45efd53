// A new barrier at a new address every time: objects=N, each passed twice by
// two threads.
#include "common.h"

static long objects;
static pthread_barrier_t *all;

static void *work(void *unused)
{
    for (volatile long i = 0; i < objects; i++)
        for (volatile int twice = 0; twice < 2; twice++)
            pthread_barrier_wait(&all[i]); // SITE fresh
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t handle;
    objects = option(argc, argv, "objects", 6000);
    all = calloc((size_t)objects, sizeof *all);
    for (long i = 0; i < objects; i++)
        must(pthread_barrier_init(&all[i], NULL, 2));
    must(pthread_create(&handle, NULL, work, NULL));
    work(NULL);
    must(pthread_join(handle, NULL));
    return 0;
}
