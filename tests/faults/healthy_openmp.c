// Even loops.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2
// healthy
// never: imbalance
// never: serial
// never: asleep
// never: more threads than CPUs
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
static volatile double sink;
static void work(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
__attribute__((noinline)) static void solve(void)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < 16; i++)
        work(1000000);
}
int main(void)
{
    for (int step = 0; step < 50; step++)
        solve();
    return 0;
}
