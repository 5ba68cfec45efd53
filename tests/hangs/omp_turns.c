// A barrier in each turn of a loop whose turns do not divide evenly.
// build: gcc -O2 -g -fopenmp
// build: clang -O2 -g -fopenmp
// build: gcc -O2 -fopenmp -s
// outcome: hung
// must: the threads of one team wait at different barriers
// must: end of the parallel region
// never: no circle of waits
// never: not known
// never: initialised again
#include <omp.h>
static int rows = 10;
static void exchange(void) {
#pragma omp barrier
}
int main(void) {
#pragma omp parallel num_threads(4)
    {
#pragma omp for schedule(static) nowait
        for (int row = 0; row < rows; row++)
            exchange();
    }
    return 0;
}
