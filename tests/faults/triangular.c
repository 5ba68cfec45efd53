// A triangular loop with the static schedule: the second half of the rows is three times as long.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2
// must: static imbalance at 
// must: T1 
// must: schedule(dynamic)
// never: serial part
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
static volatile double sink;
static void work(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
__attribute__((noinline)) static void factorize(void)
{
#pragma omp parallel for schedule(static)
    for (int row = 0; row < 64; row++)
        work(33333 * row);
}
int main(void)
{
    for (int step = 0; step < 25; step++)
        factorize();
    return 0;
}
