// What OpenMP makes barriers of besides the plain ones: reductions, copies from
// one thread to all, tasks, what may be cancelled; and as many barriers a
// second as the machine can do.
#include <omp.h>
#include <stdio.h>

#include "common.h"

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 20);
    long fast = option(argc, argv, "fast", 0);
    long sum = 0, done = 0;
    int copy = 0;
    omp_set_dynamic(0);
    omp_set_num_threads((int)option(argc, argv, "threads", 6));
#pragma omp parallel private(copy)
    for (long round = 0; round < rounds; round++) {
#pragma omp for reduction(+ : sum) // SITE reduce
        for (int i = 0; i < 100; i++)
            sum += i;
#pragma omp single copyprivate(copy) // SITE copy
        copy = (int)round;
#pragma omp single // SITE tasks
        for (int i = 0; i < 20; i++) {
#pragma omp task
            {
#pragma omp atomic
                done += copy == (int)round;
            }
        }
#pragma omp barrier // SITE barrier
#pragma omp for // SITE cancel
        for (int i = 0; i < 100; i++) {
            if (i % 7 == 3) {
#pragma omp cancel for
            }
        }
    }
    for (long round = 0; round < rounds; round++) {
#pragma omp parallel for reduction(+ : sum) // SITE region
        for (int i = 0; i < 100; i++)
            sum += i;
    }
    for (long round = 0; round < rounds; round++) {
#pragma omp parallel
        {
#pragma omp barrier // SITE cancellable
            if (sum < 0) {
#pragma omp cancel parallel
            }
        }
    }
#pragma omp parallel num_threads(2)
    for (long round = 0; round < fast; round++) {
#pragma omp barrier // SITE fast
    }
    printf("%ld %ld\n", sum, done);
    return 0;
}
