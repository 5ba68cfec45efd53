// Parallel regions of OpenMP with work of one thread between them, of known length:
// everything sleeps, so that nobody lacks a CPU.
//
// regions [threads=3] [rounds=20] [region=US] each thread works so long in a region
//         [serial=US]   the first thread works so long between two of them
//         [tail=US]     and so long after the last
//         [inside=N]    so many explicit barriers in each region
//         [alone=1]     regions of one thread before and inside of each
#include <omp.h>

#include "common.h"

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 20), region = option(argc, argv, "region", 4000);
    long serial = option(argc, argv, "serial", 12000), tail = option(argc, argv, "tail", 100000);
    long inside = option(argc, argv, "inside", 0), alone = option(argc, argv, "alone", 0);
    int threads = (int)option(argc, argv, "threads", 3);
    uint64_t ended = 0, worked = 0;
    omp_set_dynamic(0);
    for (long round = 0; round < rounds; round++) {
        if (alone) {
#pragma omp parallel num_threads(1)
            sleep_us(10);
        }
        sleep_us(serial);
        if (ended != 0)
            worked += now_ns() - ended;
#pragma omp parallel num_threads(threads) // SITE region
        {
            sleep_us(region);
            if (alone) {
#pragma omp parallel num_threads(1)
                sleep_us(10);
            }
            for (long i = 0; i < inside; i++) {
#pragma omp barrier
                sleep_us(region);
            }
        }
        ended = now_ns();
    }
    printf("between %llu\n", (unsigned long long)worked);
    fflush(stdout);
    sleep_us(tail);
    return 0;
}
