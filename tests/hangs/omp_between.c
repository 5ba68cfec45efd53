// Between two parallel regions, the first thread reads from a pipe into which nobody writes: the others of
// the team wait for the next region, and are no victims.
// build: gcc -O2 -g -fopenmp
// build: clang -O2 -g -fopenmp
// outcome: hung
// must: only its own process holds the other end
// must: waits for the next parallel region
// never: could wake
// never: waits for the condition variable
#include <omp.h>
#include <unistd.h>
static int ends[2], sum;
static int fetch(void) {
    char one;
    return (int)read(ends[0], &one, 1);
}
int main(void) {
    if (pipe(ends))
        return 1;
#pragma omp parallel num_threads(3) reduction(+ : sum)
    sum += omp_get_thread_num();
    int got = fetch();
#pragma omp parallel num_threads(3) reduction(+ : sum)
    sum += got;
    return sum;
}
