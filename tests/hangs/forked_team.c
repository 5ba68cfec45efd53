// A child that was forked after a parallel region begins a parallel region.
// build: gcc -O2 -g -fopenmp
// build: gcc -O2 -fopenmp -s
// outcome: hung
// must: exists only in the parent
// must: forked from process
// never: no circle of waits
// never: not known
#include <omp.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static double norm(int count) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(3)
    for (int i = 0; i < count; i++)
        sum += 1.0 / (i + 1);
    return sum;
}
int main(void) {
    double before = norm(1000);
    pid_t child = fork();
    if (!child)
        _exit(norm(1000) > before);
    return waitpid(child, NULL, 0) < 0;
}
