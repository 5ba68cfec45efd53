// Processes that fork without end and are killed, maybe just then: nothing of them may
// stay behind. Ends with 1 if something does.
//
// killed [rounds=40]
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "common.h"

static pthread_barrier_t barrier;

static void *work(void *unused)
{
    for (volatile int round = 0; round < 5; round++)
        pthread_barrier_wait(&barrier); // SITE killed
    return unused;
}

static void forks(void)
{
    for (;;) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child > 0)
            waitpid(child, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 40);
    pthread_t other;
    must(pthread_barrier_init(&barrier, NULL, 2));
    must(pthread_create(&other, NULL, work, NULL));
    work(NULL);
    must(pthread_join(other, NULL));
    for (long round = 0; round < rounds; round++) {
        int ends[2];
        if (pipe(ends) != 0)
            return 9;
        pid_t child = fork();
        if (child == 0)
            forks();
        close(ends[1]);
        sleep_us(3000 + round * 137 % 2000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        // Its end comes when nobody holds the other one.
        struct pollfd poller = {.fd = ends[0], .events = POLLIN};
        if (poll(&poller, 1, 20000) == 0)
            return 1;
        close(ends[0]);
    }
    return 5;
}
