// Rays of very different cost, dealt out in two halves.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2
// must: dynamic imbalance at 
// must: random_costs.c:
// must: schedule(dynamic)
// never: static imbalance
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
static volatile double sink;
static void work(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
static unsigned seed = 1;
__attribute__((noinline)) static void trace(void)
{
    unsigned heavy = (seed = seed * 1103515245u + 12345u) >> 16 & 1;
#pragma omp parallel for schedule(static)
    for (int ray = 0; ray < 2; ray++)
        work((unsigned)ray == heavy ? 6000000 : 2000000);
}
int main(void)
{
    for (int step = 0; step < 60; step++)
        trace();
    return 0;
}
