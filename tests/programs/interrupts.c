// Counts the signals INT and TERM that it gets within half a second from the first on; waits
// for that for wait=US. Exits with 10 + INT + 5 * TERM.
#include "common.h"

static volatile sig_atomic_t interrupts, terminations;

static void count(int number)
{
    if (number == SIGINT)
        interrupts++;
    else
        terminations++;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    printf("ready\n");
    fflush(stdout);
    uint64_t end = now_ns() + (uint64_t)option(argc, argv, "wait", 20000000) * 1000;
    while (now_ns() < end && interrupts + terminations == 0)
        sleep_us(10000);
    if (interrupts + terminations > 0)
        sleep_us(500000);
    return 10 + interrupts + 5 * terminations;
}
