// A parallel region for a loop of a few hundred operations.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2 SBT_BUDGET=off
// must: phase too short for its barrier at 
// never: imbalance at
// never: more threads
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
static volatile double sink;
static void work(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
__attribute__((noinline)) static void axpy(void)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < 2; i++)
        work(150);
}
int main(void)
{
    for (int step = 0; step < 40000; step++)
        axpy();
    return 0;
}
