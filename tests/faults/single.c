// A long `single` inside of a parallel region: one thread works, whichever comes first.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2
// must: serial phase before 
// must: single.c:
// never: static imbalance
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
static volatile double sink;
static void work(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
int main(void)
{
#pragma omp parallel
    for (int step = 0; step < 50; step++) {
        work(1000000);
#pragma omp barrier
#pragma omp single
        work(6000000);
    }
    return 0;
}
