// A barrier inside of a critical section.
// build: gcc -O2 -g -fopenmp
// outcome: hung
// must: critical section
// never: no circle of waits
// never: not known
#include <omp.h>
static int sum;
static void meet(void) {
#pragma omp barrier
}
int main(void) {
#pragma omp parallel num_threads(3)
    {
#pragma omp critical
        {
            sum++;
            meet();
        }
    }
    return sum;
}
