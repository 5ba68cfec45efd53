// A daemon that polls a pipe into which the handler of a signal writes: not a hang.
// build: gcc -O2 -g -pthread
// outcome: unknown
// must: poll()
// must: a handler of a signal may wake it
// never: only its own process holds the other end
// never: for ever
#include <poll.h>
#include <signal.h>
#include <unistd.h>
static int ends[2];
static void tell(int signal) {
    char number = (char)signal;
    if (write(ends[1], &number, 1) < 0)
        _exit(1);
}
int main(void) {
    if (pipe(ends))
        return 1;
    struct sigaction action = {.sa_handler = tell, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, 0);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    while (poll(&end, 1, -1) < 1)
        ;
}
