// A program that was stopped.
// build: gcc -O2 -g -pthread
// outcome: outside
// must: was stopped by a signal
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <signal.h>
int main(void) {
    return raise(SIGSTOP);
}
