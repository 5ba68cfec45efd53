// A barrier inside of single.
// build: gcc -O2 -g -fopenmp
// build: clang -O2 -g -fopenmp
// outcome: hung
// must: the threads of one team wait at different barriers
// must: end of the parallel region
// never: no circle of waits
// never: not known
// never: initialised again
#include <omp.h>
static int steps;
static void meet(void) {
#pragma omp barrier
    steps++;
}
int main(void) {
#pragma omp parallel num_threads(3)
    {
#pragma omp single
        meet();
    }
    return steps;
}
