// Barriers that are the last act of a function: optimised, their calls are jumps.
//
// jumps [rounds=20]
//   meet        from two places of `work`
//   passes_on   jumps to a function that jumps to the barrier
//   chooses     to one of two barriers: the call of `chooses` does not say to which
//   twice       to one function from two places: the same
//   or_else     to a barrier, or to whatever a pointer points to: the same
#include "common.h"

#define THREADS 2
static long rounds;
static pthread_barrier_t first, second, third, fourth, fifth, sixth;
static void (*volatile other)(void);
static _Thread_local volatile long passed;

__attribute__((noinline)) static void meet(void)
{
    passed++;
    pthread_barrier_wait(&first); // SITE meet
}

__attribute__((noinline)) static void last(void)
{
    passed += 2;
    pthread_barrier_wait(&second); // SITE last
}

__attribute__((noinline)) static void passes_on(void)
{
    passed += 3;
    last(); // SITE passes on
}

__attribute__((noinline)) static void chooses(long round)
{
    passed += 4;
    if (round % 2)
        pthread_barrier_wait(&third);
    else
        pthread_barrier_wait(&fourth);
}

__attribute__((noinline)) static void either(void)
{
    passed += 9;
    pthread_barrier_wait(&fifth);
}

__attribute__((noinline)) static void twice(long round)
{
    if (round % 2) {
        passed *= 3;
        either();
        return;
    }
    passed ^= 11;
    either();
}

__attribute__((noinline)) static void or_else(void)
{
    if (other) {
        other();
        return;
    }
    pthread_barrier_wait(&sixth);
}

static void *work(void *argument)
{
    (void)argument;
    for (long round = 0; round < rounds; round++) {
        meet(); // SITE one
        passed += 5;
        meet(); // SITE other
        passed += 6;
        passes_on(); // SITE begin
        passed += 7;
        chooses(round); // SITE chooses
        passed += 8;
        twice(round); // SITE twice
        passed += 10;
        or_else(); // SITE or else
        passed += 12;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 20);
    pthread_barrier_t *all[] = {&first, &second, &third, &fourth, &fifth, &sixth};
    for (int i = 0; i < 6; i++)
        must(pthread_barrier_init(all[i], NULL, THREADS));
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, NULL));
    for (long i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL));
    printf("done\n");
    return 0;
}
