// A program that spins until a signal's handler sets a flag: not a hang.
// build: gcc -O2 -g -pthread
// busy: yes
// outcome: unknown
// must: a handler of a signal may change it
// never: no thread of the process is left
// never: for ever
#include <signal.h>
static volatile sig_atomic_t stop;
static void end(int signal) {
    stop = signal;
}
int main(void) {
    signal(SIGTERM, end);
    while (!stop)
        ;
}
