// Three regions with a long serial part between them, which runs twice.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2
// must: serial part: T0 
// must: amdahl_once.c:
// never: imbalance at
// never: too few
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
static volatile double sink;
static void work(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
__attribute__((noinline)) static void parallel_part(void)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < 32; i++)
        work(4000000);
}
int main(void)
{
    parallel_part();
    work(100000000); // alone
    parallel_part();
    work(100000000); // alone
    parallel_part();
    return 0;
}
