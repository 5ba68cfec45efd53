/* Threads of OpenMP that meet at a barrier after every 25 µs or so of work.
 * Prints how long that took by the program's own clock.
 *
 * openmp-phases [PHASES] */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORK 15000

static volatile uint64_t sink[64 * 16];

int main(int argc, char **argv)
{
    int phases = argc > 1 ? atoi(argv[1]) : 10000;
    double start = omp_get_wtime();
#pragma omp parallel
    {
        int id = omp_get_thread_num();
        for (int phase = 0; phase < phases; phase++) {
            uint64_t sum = (uint64_t)id;
            for (int i = 0; i < WORK; i++)
                sum = sum * 6364136223846793005u + 1442695040888963407u;
            sink[id * 16] = sum;
#pragma omp barrier
        }
    }
    printf("seconds %.6f\n", omp_get_wtime() - start);
    return 0;
}
