// Threads that wait at a barrier execute tasks meanwhile, and in each task there
// are barriers at which a thread is alone.
#include <omp.h>

#include "common.h"

static void work(long us)
{
    long end = now_ns() + us * 1000;
    while (now_ns() < end)
        continue;
}

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 10);
    omp_set_dynamic(0);
#pragma omp parallel num_threads(3)
    for (long round = 0; round < rounds; round++) {
#pragma omp master
        for (int i = 0; i < 20; i++) {
#pragma omp task
            {
#pragma omp parallel num_threads(1)
                {
                    work(100);
#pragma omp barrier
                }
            }
        }
        if (omp_get_thread_num() == 2)
            work(5000);
#pragma omp barrier // SITE barrier
    }
    return 0;
}
