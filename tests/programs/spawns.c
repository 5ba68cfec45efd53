// Starts a program in every way there is, while a thread of its own goes on.
//
// spawns PROGRAM ARGUMENTS...
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include "common.h"

extern char **environ;

static pthread_barrier_t barrier;
static atomic_int done;
static long rounds;

static void *work(void *unused)
{
    for (; !atomic_load(&done); rounds++) {
        pthread_barrier_wait(&barrier); // SITE alone
        sleep_us(100);
    }
    return unused;
}

static int ended(pid_t child)
{
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

static int by_vfork(char **command)
{
    pid_t child = vfork();
    if (child == 0) {
        execv(command[0], command);
        _exit(9);
    }
    return ended(child);
}

static int by_posix_spawn(char **command)
{
    pid_t child;
    must(posix_spawn(&child, command[0], NULL, NULL, command, environ));
    return ended(child);
}

static char *line(char **command)
{
    static char line[4096];
    for (; *command; command++) {
        strcat(line, *command);
        strcat(line, " ");
    }
    return line;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(pthread_barrier_init(&barrier, NULL, 1));
    pthread_t handle;
    must(pthread_create(&handle, NULL, work, NULL));
    char *as_line = line(argv + 1);
    int wrong = by_vfork(argv + 1) + by_posix_spawn(argv + 1) + system(as_line);
    FILE *pipe = popen(as_line, "r");
    char text[256];
    while (fgets(text, sizeof text, pipe))
        fputs(text, stdout);
    wrong += pclose(pipe);
    atomic_store(&done, 1);
    must(pthread_join(handle, NULL));
    printf("wrong %d, rounds %ld\n", wrong, rounds);
    return wrong;
}
