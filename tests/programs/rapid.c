// A team that does nothing but come to its barrier: as many arrivals as the machine
// can do.
#include <omp.h>

#include "common.h"

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 300000);
    omp_set_dynamic(0);
    omp_set_num_threads((int)option(argc, argv, "threads", 2));
    uint64_t start = now_ns();
#pragma omp parallel
    for (long round = 0; round < rounds; round++) {
#pragma omp barrier
    }
    printf("%lu\n", (unsigned long)(now_ns() - start));
    return 0;
}
