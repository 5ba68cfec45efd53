// A loop of events waits for a pipe to which only its own thread could write.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: epoll_wait()
// must: only its own process holds the other end
// never: no circle of waits
// never: not known
#include <sys/epoll.h>
#include <unistd.h>
int main(void) {
    int ends[2];
    if (pipe(ends))
        return 1;
    int all = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN}, come;
    epoll_ctl(all, EPOLL_CTL_ADD, ends[0], &wanted);
    return epoll_wait(all, &come, 1, -1);
}
