// Does to itself what a debugger would: single steps with a handler, and waits in a call that
// a signal nobody cares for must not end. Says what it has seen, beside a barrier.
#include "common.h"
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

static volatile int steps;
static pthread_barrier_t barrier;

static void step(int number)
{
    (void)number;
    steps++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = step};
    must(sigaction(SIGTRAP, &action, NULL));
    must(pthread_barrier_init(&barrier, NULL, 1));
    pthread_barrier_wait(&barrier);
    // The trap flag, for some instructions; what lies below the stack is left alone.
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
                     "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                     "nop\n\tnop\n\tnop\n\t"
                     "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
                     "lea 128(%%rsp), %%rsp" ::: "memory", "cc");
    pthread_barrier_wait(&barrier);
    int poller = epoll_create1(0);
    pid_t child = fork();
    if (child == 0) {
        sleep_us(50000);
        _exit(0);
    }
    struct epoll_event event;
    int came = epoll_wait(poller, &event, 1, 200);
    waitpid(child, NULL, 0);
    printf("steps %d epoll %d\n", steps, came);
    return 0;
}
