// An OpenMP barrier in a function of its own, called from two places.
#include "common.h"

static volatile long passed[64 * 8];

__attribute__((noinline)) static void meet(long *mine)
{
#pragma omp barrier // SITE meet
    ++*mine;
}

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 50);
#pragma omp parallel num_threads(3)
    {
        long mine = 0;
        for (long round = 0; round < rounds; round++) {
            meet(&mine); // CALL meet first
            sleep_us(1000);
            meet(&mine); // CALL meet second
        }
        passed[0] = mine;
    }
    return 0;
}
