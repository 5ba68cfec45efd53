// Two threads of OpenMP share a CPU and spin there, while another CPU is free.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2 GOMP_CPU_AFFINITY=0
// must: bound to too few CPUs: T0
// never: imbalance at
// never: serial phase
#include <stdio.h>
static double u[2000][500], v[2000][500];
int main(void)
{
    for (int step = 0; step < 60; step++)
#pragma omp parallel for schedule(static)
        for (int i = 1; i < 1999; i++)
            for (int k = 0; k < 6; k++)
            for (int j = 1; j < 499; j++)
                v[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1]) + 1 / (1 + u[i][j]);
    printf("%g\n", v[3][4]);
}
