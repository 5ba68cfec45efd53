// Places to mark, in one thread or in several.
//
// marks [threads=1] [rounds=20]
#include "common.h"

static long rounds;

__attribute__((noinline)) static void first_part(long round)
{
    sleep_us(2000 + 0 * round);
}

__attribute__((noinline)) static void second_part(long round)
{
    spin_us(1000);
    if (round % 2 == 1)
        sleep_us(100); // LINE odd
}

static void *work(void *argument)
{
    for (long round = 0; round < rounds; round++) {
        first_part(round);
        second_part(round);
    }
    return argument;
}

int main(int argc, char **argv)
{
    long threads = option(argc, argv, "threads", 1);
    rounds = option(argc, argv, "rounds", 20);
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    for (long i = 1; i < threads; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    work(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(handles[i], NULL));
    printf("done\n");
    return 0;
}
