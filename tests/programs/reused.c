// Threads that come and go with the same two numbers again and again, in a process
// namespace of its own, or barriers with other counts at one address.
//
// reused [waves=200] [rounds=5] [numbers=1]  two workers at a time besides main
//        [barriers=1] [how=0]  each wave of 2, 3 or 4 has a barrier of its own where the
//                              last was; destroyed before, left as it was, or overwritten
#include <fcntl.h>

#include "common.h"

static long rounds;

static void *work(void *barrier)
{
    for (volatile long round = 0; round < rounds; round++)
        pthread_barrier_wait(barrier); // SITE reused
    return NULL;
}

static void next_number(int number)
{
    char text[16];
    int length = snprintf(text, sizeof text, "%d", number - 1);
    int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    if (fd < 0 || write(fd, text, (size_t)length) != length)
        exit(9);
    close(fd);
}

int main(int argc, char **argv)
{
    long waves = option(argc, argv, "waves", 200);
    long numbers = option(argc, argv, "numbers", 0);
    long barriers = option(argc, argv, "barriers", 0);
    long how = option(argc, argv, "how", 0);
    rounds = option(argc, argv, "rounds", 5);
    uintptr_t first = 0;
    pthread_barrier_t *barrier = NULL;
    for (long wave = 0; wave < waves; wave++) {
        long threads = barriers ? 2 + wave % 3 : 3;
        if (!barrier || barriers) {
            barrier = malloc(sizeof *barrier);
            if (!first)
                first = (uintptr_t)barrier;
            if ((uintptr_t)barrier != first)
                return 8;
            must(pthread_barrier_init(barrier, NULL, (unsigned)threads));
        }
        pthread_t handles[4];
        for (long i = 1; i < threads; i++) {
            if (numbers)
                next_number(1000 + (int)i);
            must(pthread_create(&handles[i], NULL, work, barrier));
        }
        work(barrier);
        for (long i = 1; i < threads; i++)
            must(pthread_join(handles[i], NULL));
        if (barriers) {
            if (how == 0)
                must(pthread_barrier_destroy(barrier));
            if (how == 2)
                memset(barrier, 0xff, sizeof *barrier);
            free(barrier);
        }
    }
    return 0;
}
