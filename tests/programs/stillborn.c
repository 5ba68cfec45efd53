// Children that are killed before their first instruction, by another thread, which learns their
// number from the kernel while they are made. Between them their parent comes to barriers.
//
// stillborn [children=100] [dumpable=1]
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common.h"

static pthread_barrier_t barrier;
static _Atomic pid_t number;
static atomic_int over;

static void *kills(void *unused)
{
    while (!over) {
        pid_t child = number;
        if (child > 0 && kill(child, SIGKILL) == 0)
            // There may be another one by now.
            atomic_compare_exchange_strong(&number, &child, 0);
    }
    return unused;
}

static void *work(void *unused)
{
    pthread_barrier_wait(&barrier); // SITE stillborn
    return unused;
}

int main(int argc, char **argv)
{
    long children = option(argc, argv, "children", 100);
    pthread_t killer;
    must(pthread_barrier_init(&barrier, NULL, 2));
    in_two(work);
    prctl(PR_SET_DUMPABLE, option(argc, argv, "dumpable", 1), 0, 0, 0);
    must(pthread_create(&killer, NULL, kills, NULL));
    long killed = 0;
    for (long i = 0; i < children; i++) {
        pid_t child = (pid_t)syscall(SYS_clone, CLONE_PARENT_SETTID | SIGCHLD, 0, (pid_t *)&number, 0, 0);
        while (child == 0)
            pause();
        int status = 0;
        waitpid(child, &status, 0);
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        in_two(work);
    }
    over = 1;
    must(pthread_join(killer, NULL));
    printf("killed %ld\n", killed);
    return 3;
}
