// Tasks of OpenMP: the longest is made last. Threads execute them in the barrier.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2
// healthy
// never: phase too short
// never: imbalance at
#include <stdio.h>
static volatile double sink;
static void work(int n) { double s = 0; for (int i = 1; i < n; i++) s += 1.0 / (s + i); sink = s; }
int main(void)
{
    for (int r = 0; r < 30; r++) {
#pragma omp parallel
#pragma omp single
        for (int i = 0; i < 9; i++) {
#pragma omp task firstprivate(i)
            work(i == 8 ? 3000000 : 250000);
        }
    }
}
