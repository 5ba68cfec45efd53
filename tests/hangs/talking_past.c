// Parent and child each wait for the first word of the other.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: wait for each other
// must: read()
// never: no circle of waits
// never: not known
#include <sys/wait.h>
#include <unistd.h>
static void ask(int from, int to) {
    char word;
    while (read(from, &word, 1) == 1)
        (void)!write(to, &word, 1);
}
int main(void) {
    int down[2], up[2];
    if (pipe(down) || pipe(up))
        return 1;
    if (!fork()) {
        close(down[1]);
        close(up[0]);
        ask(down[0], up[1]);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    ask(up[0], down[1]);
    return wait(NULL) < 0;
}
