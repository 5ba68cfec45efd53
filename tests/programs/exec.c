// Uses a barrier, then executes its arguments.
#include "common.h"

static pthread_barrier_t barrier;

static void *work(void *unused)
{
    for (volatile int round = 0; round < 10; round++)
        pthread_barrier_wait(&barrier); // SITE before
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t handle;
    if (argc < 2)
        return 9;
    must(pthread_barrier_init(&barrier, NULL, 2));
    must(pthread_create(&handle, NULL, work, NULL));
    work(NULL);
    must(pthread_join(handle, NULL));
    execvp(argv[1], argv + 1);
    return 8;
}
