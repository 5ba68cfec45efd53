// Forks; parent and child both go on to use a barrier.
#include <sys/wait.h>
#include "common.h"

static long rounds;
static pthread_barrier_t barrier;

static void *work(void *unused)
{
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(200);
        pthread_barrier_wait(&barrier); // SITE fork
    }
    return unused;
}

static void team(int threads)
{
    pthread_t handles[8];
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    for (int i = 0; i < threads; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    for (int i = 0; i < threads; i++)
        must(pthread_join(handles[i], NULL));
    must(pthread_barrier_destroy(&barrier));
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    team(2);
    pid_t child = fork();
    if (child == 0) {
        team(3);
        _exit(5);
    }
    team(4);
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    return WEXITSTATUS(status) == 5 ? 0 : 1;
}
