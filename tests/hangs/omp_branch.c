// A barrier in one branch alone. The compiler reaches it by a jump, so that no call of the region is
// left on the stacks of those that wait there.
// build: gcc -O2 -g -fopenmp
// build: clang -O2 -g -fopenmp
// outcome: hung
// must: the threads of one team wait at different barriers
// must: wait at a barrier inside of the parallel region;
// must: wait at the end of the parallel region that begins at omp_branch.c:
// never: initialised again
// never: not known
#include <omp.h>
static double part[8];
int main(void) {
#pragma omp parallel num_threads(4)
    {
        int me = omp_get_thread_num();
        part[me] += me;
        if (me % 2) {
            part[me] *= 2;
#pragma omp barrier
        }
    }
    return part[1] > 9;
}
