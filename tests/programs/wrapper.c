// Barriers behind a function of the program's own, and behind an inlined one,
// each from two phases.
#include "common.h"

#define THREADS 3
static long rounds;
static pthread_barrier_t barrier;
static _Thread_local volatile long passed;

__attribute__((noinline)) static void barrier_wrapper(void)
{
    pthread_barrier_wait(&barrier); // SITE wrapper
    passed++;
}

static inline __attribute__((always_inline)) void inlined_wrapper(void)
{
    pthread_barrier_wait(&barrier); // SITE inlined
    passed++;
}

__attribute__((noinline)) static void first_phase(void)
{
    spin_us(50);
    barrier_wrapper();
}

__attribute__((noinline)) static void second_phase(void)
{
    spin_us(100);
    barrier_wrapper();
}

__attribute__((noinline)) static void third_phase(void)
{
    spin_us(50);
    inlined_wrapper(); // CALL third
}

__attribute__((noinline)) static void fourth_phase(void)
{
    spin_us(100);
    inlined_wrapper(); // CALL fourth
}

static void *work(void *unused)
{
    for (long round = 0; round < rounds; round++) {
        first_phase(); // CALL first
        second_phase(); // CALL second
        third_phase();
        fourth_phase();
    }
    return unused;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    pthread_t handles[THREADS];
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
