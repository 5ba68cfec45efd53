// Two threads that meet for two seconds, in a program that a tool must not change:
//
// guarded trap=1    bytes of breakpoints stand in the barrier function, which nobody calls
//         filter=1  all threads filter their system calls
//         stamp=1   the first thread may not read the time stamp
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "common.h"

static pthread_barrier_t barrier;
static volatile int goes_on = 1;

static void filter(void)
{
    struct sock_filter lines[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, lines};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        abort();
}

// Puts breakpoints where they are never reached.
static void trap(void)
{
    char *code = (char *)(uintptr_t)&pthread_barrier_wait;
    char *page = (char *)((uintptr_t)code & ~(uintptr_t)4095);
    if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        abort();
    memset(code, 0xcc, 64);
    if (mprotect(page, 8192, PROT_READ | PROT_EXEC) != 0)
        abort();
}

static void *work(void *calls)
{
    while (goes_on) {
        if (calls != NULL)
            pthread_barrier_wait(&barrier);
        for (volatile int i = 0; i < 100000; i++) {
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int traps = option(argc, argv, "trap", 0) != 0;
    pthread_t handle;
    must(pthread_barrier_init(&barrier, NULL, 1));
    if (option(argc, argv, "filter", 0))
        filter();
    if (option(argc, argv, "stamp", 0) && prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0)
        abort();
    if (traps)
        trap();
    printf("ready\n");
    fflush(stdout);
    must(pthread_create(&handle, NULL, work, traps ? NULL : &barrier));
    // Not by clock: it may be read by the time stamp.
    sleep_us(2000000);
    goes_on = 0;
    must(pthread_join(handle, NULL));
    return 0;
}
