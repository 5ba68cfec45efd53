// Says as whom it runs, and whether it may read what only root may, after some rounds at a
// barrier.
//
// gains [rounds=50]
#include <fcntl.h>

#include "common.h"

static long rounds;
static pthread_barrier_t barrier;

static void *work(void *unused)
{
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(200);
        pthread_barrier_wait(&barrier); // SITE gains
    }
    return unused;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    must(pthread_barrier_init(&barrier, NULL, 2));
    in_two(work);
    int reads = open("/etc/shadow", O_RDONLY) >= 0;
    printf("user %d group %d reads %d\n", geteuid(), getegid(), reads);
    return 4;
}
