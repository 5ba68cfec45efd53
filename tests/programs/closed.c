// A program that forbids to look into it, or becomes another user, and then forks; or that forks so
// that nobody can trace the child. The child comes to barriers too. Prints how the child has ended
// (6 in the second byte), and how open it was to itself, before and after.
//
// With `borrows` there is first a child that has its memory as a thread has, but is a process, and
// does nothing.
//
// closed [rounds=50] [close_at=ROUND] [user=-1] [dumpable=1] [filter=0] [untraced=0] [children=1]
//        [borrows=0]
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common.h"

static long rounds;
static long close_at;
static pthread_barrier_t barrier;

static void *work(void *unused)
{
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(200);
        pthread_barrier_wait(&barrier); // SITE closed
        if (round == close_at)
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
    return unused;
}

static void team(void)
{
    must(pthread_barrier_init(&barrier, NULL, 2));
    in_two(work);
}

// A filter that forbids nothing: what it would do to calls that are not the program's own
// nobody knows.
static void filter(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        abort();
}

static int nothing(void *unused)
{
    (void)unused;
    sleep_us(20000);
    return 0;
}

static void borrow(void)
{
    enum { STACK = 1 << 16 };
    static _Alignas(16) char stack[STACK];
    int status = -1;
    pid_t child = clone(nothing, stack + STACK, CLONE_VM | SIGCHLD, NULL);
    waitpid(child, &status, 0);
    printf("borrowed %x\n", status);
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    long untraced = option(argc, argv, "untraced", 0);
    long children = option(argc, argv, "children", 1);
    close_at = option(argc, argv, "close_at", -1);
    team();
    if (option(argc, argv, "filter", 0) != 0)
        filter();
    long user = option(argc, argv, "user", -1);
    if (user >= 0)
        must(setuid((uid_t)user));
    prctl(PR_SET_DUMPABLE, option(argc, argv, "dumpable", 1), 0, 0, 0);
    if (option(argc, argv, "borrows", 0) != 0) {
        borrow();
        team();
    }
    for (long number = 0; number < children; number++) {
        pid_t child = untraced ? (pid_t)syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0)
                               : fork();
        if (child == 0) {
            int before = prctl(PR_GET_DUMPABLE);
            team();
            printf("child %d %d\n", before, prctl(PR_GET_DUMPABLE));
            fflush(stdout);
            _exit(6);
        }
        int status = 0;
        waitpid(child, &status, 0);
        printf("ended %x\n", status);
        fflush(stdout);
    }
    if (children > 0)
        team();
    printf("own %d\n", prctl(PR_GET_DUMPABLE));
    return 4;
}
