/* Threads that pass a barrier at a given rate, and sleep in between. With a rate
 * of 0 they sleep only.
 *
 * paced THREADS EPISODES_PER_SECOND SECONDS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST 256

static pthread_barrier_t barrier;
static long rate, seconds;

static void *work(void *argument)
{
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    if (rate == 0)
        sleep(seconds);
    for (long i = 0; i < rate * seconds; i++) {
        next.tv_nsec += 1000000000 / rate;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        pthread_barrier_wait(&barrier);
    }
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST];
    if (argc != 4) {
        fprintf(stderr, "usage: paced THREADS EPISODES_PER_SECOND SECONDS\n");
        return 2;
    }
    int count = atoi(argv[1]);
    if (count < 1 || count > MOST)
        return 2;
    rate = atol(argv[2]);
    seconds = atol(argv[3]);
    pthread_barrier_init(&barrier, NULL, count);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
