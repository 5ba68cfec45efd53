// One thread of a team waits for a signal that no handler takes, before it comes to the barrier.
// build: gcc -O2 -g -fopenmp
// build: gcc -O2 -fopenmp -static -s
// build: clang -O2 -g -fopenmp
// outcome: hung
// must: pause()
// must: and the process handles no signal
// never: waits for something outside
// never: the count is too large
// never: for ever
#include <omp.h>
#include <unistd.h>
int main(void) {
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 2)
            pause();
#pragma omp barrier
    }
    return 0;
}
