// A parent and its child lock two files in opposite order.
// build: gcc -O2 -g
// outcome: hung
// must: waits in flock()
// must: they wait for each other for ever
// never: not known
#include <stdio.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
static char names[2][32] = {"/tmp/sbt-lock-XXXXXX", "/tmp/sbt-lock-XXXXXX"};
int mkstemp(char *name);
static void locks(int first, int then) {
    int files[2];
    int order[] = {first, then};
    for (int at = 0; at < 2; at++)
        files[at] = open(names[order[at]], O_RDWR);
    flock(files[0], LOCK_EX);
    usleep(200000);
    flock(files[1], LOCK_EX);
}
int main(void) {
    for (int at = 0; at < 2; at++)
        mkstemp(names[at]);
    if (fork() == 0) {
        usleep(1000000);
        for (int at = 0; at < 2; at++)
            unlink(names[at]);
        _exit(0);
    }
    if (fork() == 0) {
        locks(1, 0);
        _exit(0);
    }
    locks(0, 1);
    return wait(NULL) < 0;
}
