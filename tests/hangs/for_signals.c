// A daemon that waits for signals.
// build: gcc -O2 -g -pthread
// outcome: outside
// must: waits for something outside
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <signal.h>
#include <stddef.h>
int main(void) {
    sigset_t wanted;
    int which;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    return sigwait(&wanted, &which);
}
