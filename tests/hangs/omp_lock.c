// A thread returns early and keeps the lock, and asks for the lock again in its next turn.
// build: gcc -O2 -g -fopenmp
// outcome: hung
// must: waits for an OpenMP lock
// must: in add() omp_lock.c:{lock}
// never: no circle of waits
// never: not known
#include <omp.h>
static omp_lock_t lock;
static long total;
static void __attribute__((noinline)) add(int turn) {
    omp_set_lock(&lock); // SITE lock
    if (turn == 7)
        return;
    total += turn;
    omp_unset_lock(&lock);
}
int main(void) {
    omp_init_lock(&lock);
#pragma omp parallel for num_threads(4) schedule(static, 1)
    for (int turn = 0; turn < 64; turn++)
        add(turn);
    return total < 0;
}
