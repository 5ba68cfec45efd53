// A program reads from a pipe of which only itself holds the other end.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: read()
// must: only its own process holds the other end
// must: next_line() own_pipe.c:{read}
// never: no circle of waits
// never: not known
#include <unistd.h>
__attribute__((noinline)) static long next_line(int from) {
    char line[80];
    return read(from, line, sizeof line); // SITE read
}
int main(void) {
    int ends[2];
    if (pipe(ends))
        return 1;
    return (int)next_line(ends[0]);
}
