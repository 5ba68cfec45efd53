// Every kind of barrier that OpenMP has, explicit or implied: in one region that
// lasts, in small ones, nested ones and teams of changing size.
#include <omp.h>

#include "common.h"

static volatile long sink[64 * 8];

static void work(long us)
{
    long end = now_ns() + us * 1000;
    while (now_ns() < end)
        sink[omp_get_thread_num() % 64 * 8]++;
}

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 50), slower = option(argc, argv, "slower", 40);
    int nested = (int)option(argc, argv, "nested", 10);
    omp_set_dynamic(0);
    omp_set_num_threads((int)option(argc, argv, "threads", 4));
    // Alone a thread waits for nobody.
#pragma omp parallel num_threads(1)
    work(1);
#pragma omp parallel
    {
        for (long round = 0; round < rounds; round++) {
            work(20 + slower * omp_get_thread_num());
#pragma omp barrier // SITE barrier
#pragma omp for schedule(static)
            for (int i = 0; i < 16; i++)
                work(2);
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 16; i++)
                work(2);
#pragma omp single
            work(10);
#pragma omp sections
            {
#pragma omp section
                work(10);
#pragma omp section
                work(5);
            }
        }
    }
    for (long round = 0; round < rounds; round++) {
#pragma omp parallel for schedule(static) // SITE region
        for (int i = 0; i < 16; i++)
            work(2);
    }
    for (int round = 0; round < nested; round++) {
        // One team of 2, and each of its threads has one of 3.
        omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
        {
#pragma omp parallel num_threads(3)
            work(5);
        }
    }
    for (int round = 0; round < nested; round++) {
#pragma omp parallel num_threads(2 + round % 3)
        work(5);
    }
    // Alone there is nobody to wait for.
#pragma omp parallel num_threads(1)
    work(1);
    return 0;
}
