/* A parent sends bytes to its child through a pipe, and waits for each answer: the child works for 5 ms,
   the parent does nothing. */
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile double sink;

static void burn(int us)
{
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        sink += 1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    } while ((to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3 < us);
}

int main(void)
{
    int there[2], back[2];
    char byte = 1;
    if (pipe(there) != 0 || pipe(back) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1) {
            burn(5000);
            if (write(back[1], &byte, 1) != 1)
                abort();
        }
        _exit(0);
    }
    for (int i = 0; i < 100; i++) {
        if (write(there[1], &byte, 1) != 1)
            abort();
        if (read(back[0], &byte, 1) != 1) /* SITE answer */
            abort();
    }
    close(there[1]);
    waitpid(child, 0, 0);
    return 0;
}
