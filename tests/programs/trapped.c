// Two children that end by a SIGTRAP of their own making: one that is there from the start, and one
// that is forked later. Neither comes to a barrier; their parent does, before, between and after.
//
// trapped [hold=0] ms from the first line to the first end
#include <sys/wait.h>

#include "common.h"

static pthread_barrier_t barrier;

static void *work(void *unused)
{
    for (volatile int round = 0; round < 20; round++) {
        sleep_us(500);
        pthread_barrier_wait(&barrier); // SITE trapped
    }
    return unused;
}

static pid_t waiting(void)
{
    pid_t child = fork();
    while (child == 0)
        pause();
    return child;
}

static void end(pid_t child)
{
    int status = 0;
    kill(child, SIGTRAP);
    waitpid(child, &status, 0);
    printf("ended %d\n", WTERMSIG(status));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    must(pthread_barrier_init(&barrier, NULL, 2));
    pid_t child = waiting();
    in_two(work);
    printf("ready\n");
    fflush(stdout);
    sleep_us(1000 * option(argc, argv, "hold", 0));
    end(child);
    in_two(work);
    end(waiting());
    in_two(work);
    return 3;
}
