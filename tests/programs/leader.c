// The first thread leaves with pthread_exit, after stay=US; the others go on
// without it.
#include "common.h"

#define THREADS 3
static long rounds;
static pthread_barrier_t barrier;

static void *work(void *argument)
{
    long me = (long)argument;
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(1000);
        pthread_barrier_wait(&barrier); // SITE orphan
    }
    if (me == 0) {
        printf("done\n");
        fflush(stdout);
        exit(4);
    }
    for (;;)
        pause();
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 200);
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    for (long i = 0; i < THREADS; i++) {
        pthread_t handle;
        must(pthread_create(&handle, NULL, work, (void *)i));
    }
    printf("ready\n");
    fflush(stdout);
    sleep_us(option(argc, argv, "stay", 0));
    pthread_exit(NULL);
}
