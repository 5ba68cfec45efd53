// Each piece ends in a critical section that takes three times as long as the piece; who waits sleeps.
//
// build: gcc -fopenmp
// run: OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
// must: contended lock: threads wait
// must: the omp critical section at main tally.c:
// never: imbalance at
#include <omp.h>
#include <time.h>

static volatile double sink;
static double total;

static void burn(int us)
{
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        sink += 1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    } while ((to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3 < us);
}

int main(void)
{
    for (int step = 0; step < 30; step++) {
#pragma omp parallel
        for (int piece = 0; piece < 4; piece++) {
            burn(3000);
#pragma omp critical
            {
                burn(9000);
                total += piece;
            }
        }
    }
    return 0;
}
