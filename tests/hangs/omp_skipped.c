// A thread of a team reads from a pipe to which nobody writes.
// build: gcc -O2 -g -fopenmp
// build: clang -O2 -g -fopenmp
// outcome: hung
// must: is missing at the barrier
// must: read()
// must: omp_skipped.c:{read}
// never: no circle of waits
// never: not known
#include <omp.h>
#include <unistd.h>
static int ends[2];
__attribute__((noinline)) static void load(void) {
    char word;
    (void)!read(ends[0], &word, 1); // SITE read
}
int main(void) {
    if (pipe(ends))
        return 1;
#pragma omp parallel num_threads(3)
    {
        if (omp_get_thread_num() == 1)
            load();
#pragma omp barrier
    }
    return 0;
}
