// One of three threads sleeps in each round until its device is ready.
//
// must: T1
// must: usleep called from wait_for_digitiser acquire.c:
// never: imbalance at
// never: --futex
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t meet;
static volatile double sink;

static void burn(int us)
{
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        sink += 1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    } while ((to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3 < us);
}

__attribute__((noinline)) static void wait_for_digitiser(void)
{
    usleep(12000);
    sink += 1;
}

static void *work(void *device)
{
    for (int round = 0; round < 80; round++) {
        if (device)
            wait_for_digitiser();
        burn(1500);
        pthread_barrier_wait(&meet);
    }
    return NULL;
}

int main(void)
{
    pthread_t one, two;
    pthread_barrier_init(&meet, NULL, 3);
    pthread_create(&one, NULL, work, &meet);
    pthread_create(&two, NULL, work, NULL);
    work(NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return 0;
}
