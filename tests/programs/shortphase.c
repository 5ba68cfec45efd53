// Two short functions, each called from two places: one works before it waits, the
// other only takes a lock and looks at a word.
#include "common.h"

#define NOINLINE __attribute__((noipa))
#ifdef __clang__
#undef NOINLINE
#define NOINLINE __attribute__((noinline))
#endif
#define THREADS 3

static long rounds;
static pthread_barrier_t barrier;
static volatile long cells[64];
static char taken;
static volatile long is_ready = 1;
static _Thread_local volatile long passed;

NOINLINE static void fill(long value)
{
    for (int i = 0; i < 64; i++)
        cells[i] += value;
}

NOINLINE static void phase(long value)
{
    fill(value);
    pthread_barrier_wait(&barrier); // SITE phase
    passed++;
}

NOINLINE static void sync_all(void)
{
    while (__atomic_test_and_set(&taken, __ATOMIC_ACQUIRE))
        ;
    passed++;
    __atomic_clear(&taken, __ATOMIC_RELEASE);
    while (!is_ready)
        ;
    pthread_barrier_wait(&barrier); // SITE sync
    passed++;
}

NOINLINE static void *work(void *unused)
{
    for (long round = 0; round < rounds; round++) {
        phase(1); // CALL phase first
        passed++;
        phase(2); // CALL phase second
        passed++;
        sync_all(); // CALL sync first
        passed++;
        sync_all(); // CALL sync second
        passed++;
    }
    return unused;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    pthread_t handles[THREADS];
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    for (int i = 1; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    work(NULL);
    for (int i = 1; i < THREADS; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
