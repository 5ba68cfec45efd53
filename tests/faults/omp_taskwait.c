// Even tasks of OpenMP, made by one thread: the others execute them in the barrier.
//
// build: clang -fopenmp
// run: OMP_NUM_THREADS=2
// healthy
// never: serial phase
// never: imbalance at
#include <stdio.h>
static volatile double sink;
static void work(int n) { double s = 0; for (int i = 1; i < n; i++) s += 1.0 / (s + i); sink = s; }
static void split(int d) {
    if (d == 0) { work(100000); return; }
#pragma omp task
    split(d - 1);
    split(d - 1);
#pragma omp taskwait
}
int main(void)
{
    for (int r = 0; r < 20; r++)
#pragma omp parallel
#pragma omp single
        split(7);
}
