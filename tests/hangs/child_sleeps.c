// A parent waits for a child that sleeps.
// build: gcc -O2 -g -pthread
// outcome: outside
// must: sleeps in clock_nanosleep()
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    if (!fork()) {
        sleep(1000);
        _exit(0);
    }
    return wait(NULL) < 0;
}
