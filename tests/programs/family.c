// Forks children, each of which has threads that meet at a barrier made of a mutex
// and a condition variable: at the same address in all of them, and at the same time.
//
// family [children=3] [waves=1]  so many at a time, and so often
//        [threads=3] [rounds=20] [us=200]
#include <sys/wait.h>
#include "common.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
static long threads, rounds, us, here, turn;

__attribute__((noipa)) static void meet(void)
{
    must(pthread_mutex_lock(&mutex));
    long mine = turn;
    if (++here == threads) {
        here = 0;
        turn++;
        must(pthread_cond_broadcast(&all_here));
    } else {
        while (turn == mine)
            must(pthread_cond_wait(&all_here, &mutex));
    }
    must(pthread_mutex_unlock(&mutex));
}

static void *work(void *unused)
{
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(us);
        meet(); // SITE family
    }
    return unused;
}

static void child(void)
{
    pthread_t others[64];
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, work, NULL));
    work(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    _exit(0);
}

int main(int argc, char **argv)
{
    long children = option(argc, argv, "children", 3);
    threads = option(argc, argv, "threads", 3);
    rounds = option(argc, argv, "rounds", 20);
    us = option(argc, argv, "us", 200);
    for (long wave = option(argc, argv, "waves", 1); wave > 0; wave--) {
        for (long i = 0; i < children; i++) {
            pid_t pid = fork();
            if (pid == -1)
                abort();
            if (pid == 0)
                child();
        }
        int status;
        while (wait(&status) != -1)
            if (status != 0)
                return 1;
    }
    return 0;
}
