// Waits for a while for nothing, as servers do, before it meets another thread at a barrier.
// Ends with 1 if it does not wait to the end of that time.
#include <sys/epoll.h>

#include "common.h"

static pthread_barrier_t barrier;

static void *work(void *unused)
{
    for (volatile int round = 0; round < 20; round++)
        pthread_barrier_wait(&barrier); // SITE epolls
    return unused;
}

int main(void)
{
    struct epoll_event event;
    int fd = epoll_create1(0);
    if (fd < 0 || epoll_wait(fd, &event, 1, 200) != 0)
        return 1;
    pthread_t other;
    must(pthread_barrier_init(&barrier, NULL, 2));
    must(pthread_create(&other, NULL, work, NULL));
    work(NULL);
    must(pthread_join(other, NULL));
    return 5;
}
