// A program that sleeps again and again, and does nothing else until a signal ends it.
// build: gcc -O2 -g
// outcome: outside
// never: changes
// never: no thread of the process is left
#include <unistd.h>
int main(void) {
    for (;;)
        sleep(100);
}
