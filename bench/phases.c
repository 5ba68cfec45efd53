/* Two threads, phases of about 100 µs of work each, ended by a barrier.
 * Prints how long the phases took by the program's own clock.
 *
 * phases [PHASES] */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 2
#define WORK 60000

static int phases = 10000;
static pthread_barrier_t barrier;
static volatile uint64_t sink[THREADS * 16];

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *work(void *argument)
{
    uintptr_t id = (uintptr_t)argument;
    for (int phase = 0; phase < phases; phase++) {
        uint64_t sum = id;
        for (int i = 0; i < WORK; i++)
            sum = sum * 6364136223846793005u + 1442695040888963407u;
        sink[id * 16] = sum;
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        phases = atoi(argv[1]);
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, THREADS);
    double start = seconds();
    pthread_create(&other, NULL, work, (void *)1);
    work((void *)0);
    pthread_join(other, NULL);
    printf("seconds %.6f\n", seconds() - start);
    return 0;
}
