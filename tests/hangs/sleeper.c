// A program that sleeps.
// build: gcc -O2 -g -pthread
// outcome: outside
// must: waits for something outside
// must: sleeps in clock_nanosleep()
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <unistd.h>
int main(void) {
    return (int)sleep(1000);
}
