// A healthy OpenMP program: even work, phases of some milliseconds.
// healthy
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2
// never: static imbalance
// never: dynamic imbalance
// never: serial
// never: low priority
// never: bound to
// never: own threads
#include <stdio.h>

enum { CELLS = 1 << 17, ROUNDS = 100 };
static double a[CELLS], b[CELLS];

int main(void)
{
    for (int i = 0; i < CELLS; i++)
        a[i] = i % 17;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for schedule(static)
        for (int i = 1; i < CELLS - 1; i++) {
            double v = a[i];
            for (int k = 0; k < 20; k++)
                v = 0.3 * (a[i - 1] + v + a[i + 1]);
            b[i] = v;
        }
#pragma omp parallel for schedule(static)
        for (int i = 1; i < CELLS - 1; i++) {
            double v = b[i];
            for (int k = 0; k < 20; k++)
                v = 0.3 * (b[i - 1] + v + b[i + 1]);
            a[i] = v;
        }
    }
    printf("%g\n", a[77]);
    return 0;
}
