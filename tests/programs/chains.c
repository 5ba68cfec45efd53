// One barrier behind functions of the program's own, each called from two
// places. In the library's form (-DLIBRARY) there is only one such function, in
// the program's (-DLINKED) it is not defined.
#include <alloca.h>
#include "common.h"

#define NOINLINE __attribute__((noinline))

#ifdef LIBRARY
static _Thread_local volatile long passed;
void library_wait(pthread_barrier_t *barrier)
{
    pthread_barrier_wait(barrier); // SITE library
    passed++;
}
#else
#define THREADS 3
static long rounds;
static pthread_barrier_t barrier;
static _Thread_local volatile long passed;

NOINLINE static void use(volatile char *room)
{
    room[1] = (char)passed;
}

#ifdef LINKED
void library_wait(pthread_barrier_t *barrier);
#endif

NOINLINE static void wrapper(void)
{
    pthread_barrier_wait(&barrier); // SITE wrapper
    passed++;
}

NOINLINE static void inner(void)
{
    pthread_barrier_wait(&barrier); // SITE inner
    passed++;
}

NOINLINE static void outer(void)
{
    passed++;
    inner();
    passed++;
}

NOINLINE static void sized(long size)
{
    volatile char *room = alloca(size);
    use(room);
    pthread_barrier_wait(&barrier); // SITE sized
    passed += room[1];
}

NOINLINE static void aligned(void)
{
    __attribute__((aligned(64))) volatile char room[64];
    use(room);
    pthread_barrier_wait(&barrier); // SITE aligned
    passed += room[1];
}

NOINLINE static void recursive(long depth)
{
    if (depth > 0) {
        recursive(depth - 1);
        passed++;
    }
    pthread_barrier_wait(&barrier); // SITE recursive
    passed++;
}

NOINLINE static void *work(void *unused)
{
    for (long round = 0; round < rounds; round++) {
        pthread_barrier_wait(&barrier); // CALL direct
        wrapper(); // CALL wrapper first
        passed++;
        wrapper(); // CALL wrapper second
        outer(); // CALL outer first
        passed++;
        outer(); // CALL outer second
        sized(100); // CALL sized first
        passed++;
        sized(200); // CALL sized second
        aligned(); // CALL aligned first
        passed++;
        aligned(); // CALL aligned second
        recursive(2); // CALL recursive
        passed++;
#ifdef LINKED
        library_wait(&barrier); // CALL library first
        passed++;
        library_wait(&barrier); // CALL library second
        passed++;
#endif
    }
    return unused;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    pthread_t handles[THREADS];
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    printf("ready\n");
    fflush(stdout);
    sleep_us(option(argc, argv, "hold", 0));
    for (int i = 1; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    work(NULL);
    for (int i = 1; i < THREADS; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
#endif
