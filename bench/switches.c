// Two threads on one CPU that hand a byte to each other and meet at a barrier now and then:
// nearly nothing but switches. Prints what a round of two switches takes, ns of CPU time:
// that is the same whoever else wants the CPU.
//
// switches ROUNDS
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static long rounds;
static pthread_barrier_t barrier;

static void hand(int from, int to)
{
    char byte = 0;
    if ((from >= 0 && read(from, &byte, 1) != 1) || (to >= 0 && write(to, &byte, 1) != 1))
        abort();
}

static void *other(void *argument)
{
    for (long round = 0; round < rounds; round++) {
        hand(there[0], back[1]);
        if (round % 64 == 63)
            pthread_barrier_wait(&barrier);
    }
    return argument;
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? atol(argv[1]) : 100000;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    pthread_t thread;
    if (sched_setaffinity(0, sizeof one, &one) != 0 || pipe(there) != 0 || pipe(back) != 0 ||
        pthread_barrier_init(&barrier, NULL, 2) != 0 ||
        pthread_create(&thread, NULL, other, NULL) != 0)
        return 1;
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (long round = 0; round < rounds; round++) {
        hand(-1, there[1]);
        hand(back[0], -1);
        if (round % 64 == 63)
            pthread_barrier_wait(&barrier);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    pthread_join(thread, NULL);
    double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    printf("%.1f\n", ns / (double)rounds);
    return 0;
}
