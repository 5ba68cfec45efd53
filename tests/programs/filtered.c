// Threads that filter their own system calls, so that to map memory is the end of all: those that
// forbid it to themselves before they run code that others have made do so. They meet, and then others
// that filter nothing. What lies behind each barrier is nothing that could be done for a thread.
//
// filtered [rounds=50]
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "common.h"

static long rounds;
static pthread_barrier_t barrier;

static void filter(void)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, lines};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        abort();
}

static void *filtered(void *unused)
{
    filter();
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(500);
        pthread_barrier_wait(&barrier); // SITE filtered
        __asm__ volatile("imul $3, %%rcx, %%rcx" ::: "rcx");
    }
    return unused;
}

static void *free_of_it(void *unused)
{
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(500);
        pthread_barrier_wait(&barrier); // SITE free
        __asm__ volatile("imul $3, %%rcx, %%rcx" ::: "rcx");
    }
    return unused;
}

static void team(void *(*work)(void *))
{
    pthread_t all[2];
    for (int i = 0; i < 2; i++)
        must(pthread_create(&all[i], NULL, work, NULL));
    for (int i = 0; i < 2; i++)
        must(pthread_join(all[i], NULL));
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    must(pthread_barrier_init(&barrier, NULL, 2));
    team(filtered);
    team(free_of_it);
    printf("over\n");
    return 3;
}
