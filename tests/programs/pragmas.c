// Regions of OpenMP that begin a function or follow a test: GCC gives the call that begins such a
// region the line of something before it.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 400 };

static double *values, sums[N];

__attribute__((noinline)) static void fill(void)
{
    values = malloc(sizeof(double) * N * N);
    if (!values)
        exit(1);
#pragma omp parallel for schedule(dynamic, 16) // SITE fill
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            values[i * N + j] = 1.0 / (1.0 + i + j);
}

__attribute__((noinline)) static void add(void)
{
#pragma omp parallel for schedule(static) // SITE add
    for (int i = 0; i < N; i++) {
        const double *row = values + (size_t)i * N;
        double sum = 0;
        for (int j = 0; j <= i; j++)
            sum += row[j];
        sums[i] = sum;
    }
}

int main(void)
{
    // Where libraries lie can be read only while the program lives.
    usleep(200 * 1000);
    fill();
    for (int round = 0; round < 50; round++)
        add();
    printf("%g\n", sums[N - 1]);
    return 0;
}
