// Executes its arguments with unusual signals: USR1 blocked, HUP and PIPE ignored.
#include "common.h"

int main(int argc, char **argv)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2)
        return 9;
    execvp(argv[1], argv + 1);
    return 8;
}
