// Two processes write to each other before either reads.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: wait for each other
// must: write()
// never: no circle of waits
// never: not known
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char block[1 << 20];
static void send_all(int to) {
    for (size_t done = 0; done < sizeof block;) {
        long now = write(to, block + done, sizeof block - done);
        if (now <= 0)
            return;
        done += (size_t)now;
    }
}
int main(void) {
    int down[2], up[2];
    memset(block, 'x', sizeof block);
    if (pipe(down) || pipe(up))
        return 1;
    if (!fork()) {
        close(down[1]);
        close(up[0]);
        send_all(up[1]);
        while (read(down[0], block, sizeof block) > 0)
            ;
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    send_all(down[1]);
    close(down[1]);
    while (read(up[0], block, sizeof block) > 0)
        ;
    return wait(NULL) < 0;
}
