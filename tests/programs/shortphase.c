// Short functions, each called from two places: one works before it waits, the others only
// take locks, look at words, and note what they do.
#include "common.h"
#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>

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
static volatile bool is_set = true;
static volatile int flags[4] = {1, 1, 1, 1}, leaving;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gone = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
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

NOINLINE static void check(const long *value)
{
    if (*value < 0)
        abort();
}

NOINLINE static void sync_all(void)
{
    while (__atomic_test_and_set(&taken, __ATOMIC_ACQUIRE))
        ;
    passed++;
    __atomic_clear(&taken, __ATOMIC_RELEASE);
    while (!is_ready)
        ;
    while (!is_set)
        ;
    while (flags[passed & 3] == 0)
        ;
    pthread_barrier_wait(&barrier); // SITE sync
    passed++;
}

NOINLINE static void sync_noted(void)
{
    char text[64] = {0};
    snprintf(text, sizeof text, "%ld", passed);
    check(&rounds);
    pthread_barrier_wait(&barrier); // SITE noted
    passed++;
}

NOINLINE static void sync_locked(void)
{
    while (pthread_mutex_trylock(&mutex))
        ;
    pthread_mutex_unlock(&mutex);
    while (sem_wait(&semaphore) == -1 && errno == EINTR)
        ;
    sem_post(&semaphore);
    pthread_mutex_lock(&mutex);
    while (leaving)
        pthread_cond_wait(&gone, &mutex);
    pthread_mutex_unlock(&mutex);
    pthread_barrier_wait(&barrier); // SITE locked
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
        sync_noted(); // CALL noted first
        passed++;
        sync_noted(); // CALL noted second
        passed++;
        sync_locked(); // CALL locked first
        passed++;
        sync_locked(); // CALL locked second
        passed++;
    }
    return unused;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    pthread_t handles[THREADS];
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    must(sem_init(&semaphore, 0, 1));
    for (int i = 1; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    work(NULL);
    for (int i = 1; i < THREADS; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
