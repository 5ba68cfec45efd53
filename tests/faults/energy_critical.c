// Forces between pairs are summed up in a critical section that is too long, in which threads spin before they sleep.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2
// must: omp critical section at
// must: energy_critical.c:
// never: imbalance at
#include <stdio.h>
static double force[2048];
__attribute__((noinline)) static void sum_up(int steps)
{
    for (int step = 0; step < steps; step++)
#pragma omp parallel for schedule(static)
        for (int pair = 0; pair < 6000; pair++) {
            double f = 0;
            for (int k = 1; k < 500; k++) f += 1.0 / (pair + k);
#pragma omp critical(forces)
            for (int i = 0; i < 2048; i++) force[i] += f / (force[i] + i + 1);
        }
}
int main(void)
{
    sum_up(30);
    printf("%g\n", force[3]);
    return 0;
}
