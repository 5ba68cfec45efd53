// A barrier of one thread, passed again and again: what a hit costs is all there is.
// Prints how long a pass takes, ns.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 300000;
    pthread_barrier_t barrier;
    if (pthread_barrier_init(&barrier, NULL, 1) != 0)
        return 1;
    // The probes may still be on their way.
    for (double end = now_ns() + 5e8; now_ns() < end;)
        pthread_barrier_wait(&barrier);
    double begun = now_ns();
    for (long pass = 0; pass < passes; pass++)
        pthread_barrier_wait(&barrier);
    printf("%f\n", (now_ns() - begun) / (double)passes);
    return 0;
}
