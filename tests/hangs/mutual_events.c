// Two threads wait for each other's event counter before they come to a barrier.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: no thread is left that could write to it
// must: is missing at the barrier
// never: has ended without coming
// never: not known
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
static int events[2];
static pthread_barrier_t ready;
static void *stage(void *argument) {
    long me = (long)argument;
    int all = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN};
    epoll_ctl(all, EPOLL_CTL_ADD, events[me], &wanted);
    epoll_wait(all, &wanted, 1, -1);
    uint64_t one = 1;
    write(events[1 - me], &one, sizeof one);
    pthread_barrier_wait(&ready);
    return NULL;
}
int main(void) {
    for (int at = 0; at < 2; at++)
        events[at] = eventfd(0, 0);
    pthread_barrier_init(&ready, NULL, 3);
    pthread_t stages[2];
    for (long at = 0; at < 2; at++)
        pthread_create(&stages[at], NULL, stage, (void *)at);
    pthread_barrier_wait(&ready);
    return 0;
}
