// A loop of events of a server.
// build: gcc -O2 -g -pthread
// outcome: outside
// must: epoll_wait()
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
int main(void) {
    int door = socket(AF_INET, SOCK_STREAM, 0), all = epoll_create1(0);
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct epoll_event wanted = {.events = EPOLLIN}, come;
    if (bind(door, (struct sockaddr *)&any, sizeof any) || listen(door, 8))
        return 1;
    epoll_ctl(all, EPOLL_CTL_ADD, door, &wanted);
    return epoll_wait(all, &come, 1, -1) < 0;
}
