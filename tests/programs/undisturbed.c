// Threads in system calls that would notice if somebody stopped them, and in some that
// would not. Says at the end how often one was disturbed, and how often each went on.
//
// undisturbed [ms=2000]
#include "common.h"
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

static volatile int over;
static volatile long disturbed[6], passed[6];
static int ends[2];

static void count(int which, int failed)
{
    if (failed && errno == EINTR)
        disturbed[which]++;
    else
        passed[which]++;
}

static void *in_epoll(void *unused)
{
    int poller = epoll_create1(0);
    struct epoll_event event;
    while (!over)
        count(0, epoll_wait(poller, &event, 1, 20) < 0);
    return unused;
}

static void *in_sigtimedwait(void *unused)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    struct timespec limit = {0, 20000000};
    while (!over)
        count(1, sigtimedwait(&set, NULL, &limit) < 0);
    return unused;
}

static void *in_semtimedop(void *unused)
{
    int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf down = {0, -1, 0};
    struct timespec limit = {0, 20000000};
    while (!over)
        count(2, semtimedop(set, &down, 1, &limit) < 0);
    semctl(set, 0, IPC_RMID);
    return unused;
}

static void *in_nanosleep(void *unused)
{
    struct timespec time = {0, 5000000};
    while (!over)
        count(3, nanosleep(&time, NULL) < 0);
    return unused;
}

static void *in_read(void *unused)
{
    char byte;
    while (!over)
        count(4, read(ends[0], &byte, 1) < 0);
    return unused;
}

static void *busy(void *unused)
{
    while (!over) {
        spin_us(1000);
        passed[5]++;
    }
    return unused;
}

int main(int argc, char **argv)
{
    long ms = option(argc, argv, "ms", 2000);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    must(pipe(ends));
    void *(*all[])(void *) = {in_epoll, in_sigtimedwait, in_semtimedop, in_nanosleep, in_read, busy};
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        must(pthread_create(&threads[i], NULL, all[i], NULL));
    printf("ready\n");
    fflush(stdout);
    uint64_t end = now_ns() + (uint64_t)ms * 1000000u;
    while (now_ns() < end) {
        sleep_us(10000);
        if (write(ends[1], "x", 1) != 1)
            abort();
    }
    over = 1;
    if (write(ends[1], "x", 1) != 1)
        abort();
    for (int i = 0; i < 6; i++)
        must(pthread_join(threads[i], NULL));
    for (int i = 0; i < 6; i++)
        printf("%d %ld %ld\n", i, disturbed[i], passed[i]);
    printf("over\n");
    return 0;
}
