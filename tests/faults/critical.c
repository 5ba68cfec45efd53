// Every thread spends most of its time in one critical section.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
// must: contended lock: threads wait
// must: the omp critical section at
// must: critical.c:
// never: static imbalance
// never: dynamic imbalance
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
static volatile double sink;
static void work(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
int main(void)
{
#pragma omp parallel
    for (int step = 0; step < 30; step++) {
        for (int part = 0; part < 4; part++) {
#pragma omp critical
            work(2000000);
            work(1000);
        }
#pragma omp barrier
    }
    return 0;
}
