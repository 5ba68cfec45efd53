// A team that does nothing but come to its barrier: as many arrivals as the machine
// can do. It ends after so many rounds, or after so much time where others have the CPUs.
//
// rapid [rounds=300000] [most_ms=3600000] [threads=2]
// Prints how long it ran, ns, and how many rounds there were.
#include <omp.h>

#include "common.h"

// How many rounds there are between two looks at the clock.
enum { BETWEEN = 1024 };

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 300000);
    uint64_t most_ns = (uint64_t)option(argc, argv, "most_ms", 3600000) * 1000000;
    omp_set_dynamic(0);
    omp_set_num_threads((int)option(argc, argv, "threads", 2));
    uint64_t start = now_ns();
    // Written by the first thread before a barrier, and read by all behind it.
    long limit = rounds;
#pragma omp parallel
    for (long round = 0; round < limit; round++) {
        if (round % BETWEEN == 0 && omp_get_thread_num() == 0 && now_ns() - start > most_ns)
            limit = round + 2;
#pragma omp barrier
    }
    printf("%lu %ld\n", (unsigned long)(now_ns() - start), limit);
    return 0;
}
