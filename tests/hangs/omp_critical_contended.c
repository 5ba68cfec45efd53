// Threads that get a critical section thousands of times a second: not a hang.
// build: clang -O2 -g -fopenmp
// build: gcc -O2 -g -fopenmp
// busy: yes
// outcome: moves
// never: no thread that was looked at does anything else
#include <math.h>
static double bins[1000];
static void add(long i) {
#pragma omp critical
    for (int k = 0; k < 500; k++)
        bins[k] += fabs(k - i % 700 * 0.5);
}
int main(void) {
#pragma omp parallel num_threads(2)
    for (long i = 0;; i++)
        add(i);
}
