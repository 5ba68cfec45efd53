// A storm of children, each with a team at a barrier of its own, and of children of theirs
// with another. With together=1 one thread of each ends the process while the others sleep.
//
// forkstorm [children=1000] [rounds=2] [at_once=50] [threads=2] [together=0]
#include <sys/wait.h>

#include "common.h"

static pthread_barrier_t barrier;
static long rounds, threads, together;

static void meet(void)
{
    for (volatile long round = 0; round < rounds; round++)
        pthread_barrier_wait(&barrier); // SITE child
}

static void *work(void *unused)
{
    meet();
    while (together)
        pause();
    return unused;
}

static void team(void)
{
    pthread_t handles[64];
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    for (long i = 1; i < threads; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    meet();
    for (long i = 1; i < threads && !together; i++)
        must(pthread_join(handles[i], NULL));
}

static pid_t child(long generations)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    team();
    if (generations > 1) {
        int status = 0;
        pid_t grandchild = child(generations - 1);
        if (waitpid(grandchild, &status, 0) != grandchild || status != 0)
            _exit(9);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    long children = option(argc, argv, "children", 1000);
    long at_once = option(argc, argv, "at_once", 50);
    rounds = option(argc, argv, "rounds", 2);
    threads = option(argc, argv, "threads", 2);
    together = option(argc, argv, "together", 0);
    long running = 0, failed = 0;
    for (long i = 0; i < children || running > 0;) {
        if (i < children && running < at_once) {
            if (child(2) < 0)
                return 9;
            i++;
            running++;
            continue;
        }
        int status = 0;
        if (wait(&status) < 0)
            return 9;
        failed += status != 0;
        running--;
    }
    team();
    printf("failed %ld\n", failed);
    return 5;
}
