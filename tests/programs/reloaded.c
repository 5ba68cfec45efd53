// A library with a team of COUNT threads at a barrier, three times.
#ifndef COUNT
#define COUNT 2
#endif
#include "common.h"

static pthread_barrier_t barrier;

#if COUNT == 2
static void *work(void *unused)
{
    for (volatile int round = 0; round < 3; round++)
        pthread_barrier_wait(&barrier); // SITE two
    return unused;
}
#else
static void *work(void *unused)
{
    for (volatile int round = 0; round < 3; round++)
        pthread_barrier_wait(&barrier); // SITE three
    return unused;
}
#endif

void reloaded(void)
{
    pthread_t handles[COUNT];
    must(pthread_barrier_init(&barrier, NULL, COUNT));
    for (int i = 1; i < COUNT; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    work(NULL);
    for (int i = 1; i < COUNT; i++)
        must(pthread_join(handles[i], NULL));
}
