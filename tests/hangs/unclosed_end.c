// A parent waits for its child before it closes the pipe from which the child reads to the end.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: wait for each other
// must: waits for the end of
// never: no circle of waits
// never: not known
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int ends[2];
    if (pipe(ends))
        return 1;
    pid_t child = fork();
    if (!child) {
        char text[80];
        while (read(ends[0], text, sizeof text) > 0)
            ;
        _exit(0);
    }
    close(ends[0]);
    (void)!write(ends[1], "all", 3);
    return waitpid(child, NULL, 0) < 0;
}
