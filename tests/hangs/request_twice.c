// A parent asks its child over a pair of sockets, and the child answers one question only.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: they wait for each other for ever
// must: for socket:[
// never: outside
// never: not known
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static char answer[8];
static void answers(int end) {
    read(end, answer, sizeof answer);
    write(end, "yes", 3);
    read(end, answer, sizeof answer);
}
int main(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return 1;
    if (fork() == 0) {
        close(ends[0]);
        answers(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    write(ends[0], "really", 6);
    for (int times = 0; times < 2; times++)
        read(ends[0], answer, sizeof answer);
    return wait(NULL) < 0;
}
