// Three threads meet at a barrier. In the third round the second of them is kept from it.
//
// standstill [rounds=6]
//            [how=compute] it computes
//            [how=read]    it waits for a byte from a pipe
//            [for=MS]      so long; what it waits for never comes if that is 0
//            [watchdog=MS] the program gives up after so long, with status 3
#include "common.h"

static pthread_barrier_t barrier;
static int ends[2];
static long rounds, kept_us;
static int reads;

static __attribute__((noinline)) void wait_for_byte(void)
{
    char byte;
    if (read(ends[0], &byte, 1) != 1) // SITE read
        abort();
}

static __attribute__((noinline)) void compute(void)
{
    spin_us(kept_us); // SITE compute
}

static void *work(void *argument)
{
    long me = (long)argument;
    char name[16];
    snprintf(name, sizeof name, "worker-%ld", me);
    pthread_setname_np(pthread_self(), name);
    for (long round = 0; round < rounds; round++) {
        if (round == 2 && me == 1) {
            if (reads)
                wait_for_byte();
            else
                compute();
        }
        pthread_barrier_wait(&barrier); // SITE meet
        sleep_us(1000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = text_option(argc, argv, "how");
    long watchdog = option(argc, argv, "watchdog", 0);
    pthread_t handles[3];
    rounds = option(argc, argv, "rounds", 6);
    kept_us = option(argc, argv, "for", 3000) * 1000;
    reads = how && strcmp(how, "read") == 0;
    if (pipe(ends) != 0)
        abort();
    must(pthread_barrier_init(&barrier, NULL, 3));
    for (long i = 0; i < 3; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    if (watchdog > 0) {
        sleep_us(watchdog * 1000);
        return 3;
    }
    if (reads && kept_us > 0) {
        sleep_us(kept_us);
        if (write(ends[1], "", 1) != 1)
            abort();
    }
    for (int i = 0; i < 3; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
