// A thread that is not the first executes the arguments.
#include "common.h"

static void *work(void *arguments)
{
    char **argv = arguments;
    execvp(argv[1], argv + 1);
    exit(8);
}

int main(int argc, char **argv)
{
    pthread_t handle;
    if (argc < 2)
        return 9;
    must(pthread_create(&handle, NULL, work, argv));
    for (;;)
        pause();
}
