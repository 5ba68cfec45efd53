// Most of the work is in an ordered part, which threads pass one after the other.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
// must: GOMP_ordered_start called from main omp_ordered.c:
// must: ordered part
// never: imbalance at
#include <stdio.h>
static volatile double sink;
static void work(int n) { double s = 0; for (int i = 1; i < n; i++) s += 1.0 / (s + i); sink = s; }
int main(void)
{
    for (int r = 0; r < 20; r++)
#pragma omp parallel for ordered schedule(static, 1)
    for (int i = 0; i < 20; i++) {
        work(100000);
#pragma omp ordered
        work(600000);
    }
}
