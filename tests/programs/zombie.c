// Leaves a child unreaped and says which.
#include "common.h"

int main(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    sleep_us(100000);
    printf("ready %d\n", (int)child);
    fflush(stdout);
    sleep_us(20000000);
    return 0;
}
