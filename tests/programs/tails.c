// Barriers of the program's own that end in different ways.
//
// tails [rounds=20]
//   only_passes_on     jumps to the C library's barrier in its own place
//   passes_on_inside   jumps to a function of the program that waits
//   chooses            has a switch, for which compilers make a table of jumps
//   jumps_out          is left by longjmp in the first round
#include "common.h"
#include <setjmp.h>

#define THREADS 2
static long rounds;
static pthread_barrier_t first, second, third, fourth, plain;
static _Thread_local volatile long passed;

__attribute__((noinline)) int only_passes_on(void) { return pthread_barrier_wait(&first); }

__attribute__((noinline)) static long waits(long add)
{
    pthread_barrier_wait(&second);
    return passed += add;
}

__attribute__((noinline)) long passes_on_inside(long add) { return waits(add); }

__attribute__((noinline)) long chooses(long which)
{
    pthread_barrier_wait(&third);
    switch (which % 8) {
    case 0: return passed += 3;
    case 1: passed *= 5; return which;
    case 2: return getppid();
    case 3: passed ^= 77; return passed;
    case 4: return getpid() + which;
    case 5: passed = which; return 9;
    case 6: return passed - which;
    default: return 4;
    }
}

static _Thread_local jmp_buf out;

__attribute__((noinline)) void jumps_out(long round)
{
    if (round == 0)
        longjmp(out, 1);
    pthread_barrier_wait(&fourth);
    passed++;
}

// So that later calls come from deeper in the stack.
__attribute__((noinline)) static void deeper(long depth, void (*call)(long), long argument)
{
    volatile char room[4096];
    room[depth] = 1;
    if (depth > 0)
        deeper(depth - 1, call, argument);
    else
        call(argument);
    passed += room[depth];
}

static void plainly(long argument)
{
    (void)argument;
    pthread_barrier_wait(&plain); // SITE plain
    passed++;
}

static void *work(void *argument)
{
    (void)argument;
    if (setjmp(out) == 0)
        jumps_out(0);
    for (long round = 0; round < rounds; round++) {
        only_passes_on(); // SITE passes
        passed += passes_on_inside(1); // SITE inside
        passed += chooses(round); // SITE chooses
        deeper(2, jumps_out, round + 1);
        deeper(2, plainly, 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 20);
    pthread_barrier_t *all[] = {&first, &second, &third, &fourth, &plain};
    for (int i = 0; i < 5; i++)
        must(pthread_barrier_init(all[i], NULL, THREADS));
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, NULL));
    for (long i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL));
    printf("done\n");
    return 0;
}
