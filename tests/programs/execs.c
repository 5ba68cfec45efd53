// Executes itself again and again, each time after a few barriers, and by a thread that is not
// the first; every other time the first one has ended by then. In the end it waits before
// it makes its barrier, and uses that at another place.
//
// execs left=N [rounds=100] [hold=US]
#include "common.h"

static pthread_barrier_t barrier;
static long left, rounds;
static char **arguments;

static void execute(void)
{
    char next[32];
    snprintf(next, sizeof next, "left=%ld", left - 1);
    arguments[1] = next;
    execv(arguments[0], arguments);
    exit(8);
}

__attribute__((noinline)) static void between(void)
{
    for (volatile int round = 0; round < 3; round++)
        pthread_barrier_wait(&barrier); // SITE between
}

__attribute__((noinline)) static void last(void)
{
    for (volatile long round = 0; round < rounds; round++)
        pthread_barrier_wait(&barrier); // SITE last
}

static void *work(void *unused)
{
    if (left == 0) {
        last();
        return unused;
    }
    between();
    execute();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t handle;
    if (argc < 2)
        return 9;
    left = option(argc, argv, "left", 0);
    rounds = option(argc, argv, "rounds", 100);
    arguments = argv;
    if (left == 0)
        sleep_us(option(argc, argv, "hold", 0));
    must(pthread_barrier_init(&barrier, NULL, 2));
    must(pthread_create(&handle, NULL, work, NULL));
    if (left == 0) {
        last();
        must(pthread_join(handle, NULL));
        printf("done\n");
        return 4;
    }
    between();
    if (left % 2)
        pthread_exit(NULL);
    for (;;)
        pause();
}
