// A barrier in one branch, before one that all reach. The compiler reaches the last one by a jump, also in
// the thread that has begun the region.
// build: gcc -O2 -g -fopenmp
// outcome: hung
// must: the threads of one team wait at different barriers
// must: 2 at a barrier inside of the parallel region, 1 at its end
// never: not known
#include <omp.h>
static double sum;
int main(void) {
#pragma omp parallel num_threads(3)
    {
        int me = omp_get_thread_num();
        if (me < 2) {
            sum += me;
#pragma omp barrier
        }
#pragma omp single
        sum += 1;
#pragma omp barrier
    }
    return sum > 9;
}
