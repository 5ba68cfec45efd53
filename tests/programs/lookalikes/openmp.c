// What OpenMP has for threads that wait for each other beside barriers, in one parallel region.
//
// openmp KIND
//
// critical  a critical section that all always want
// lock      a lock, likewise
// ordered   iterations in their order
// tasks     one thread makes tasks, the others do them
#include <omp.h>
#include <string.h>

static volatile double sink;

static void work(int by)
{
    double sum = 0;
    for (int i = 0; i < by * 1000; i++)
        sum += i * 0.5;
    sink = sum;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel num_threads(3)
    if (strcmp(kind, "critical") == 0) {
        for (int i = 0; i < 2000; i++) {
#pragma omp critical
            work(30);
            work(omp_get_thread_num());
        }
    } else if (strcmp(kind, "lock") == 0) {
        for (int i = 0; i < 2000; i++) {
            omp_set_lock(&lock);
            work(30);
            omp_unset_lock(&lock);
        }
    } else if (strcmp(kind, "ordered") == 0) {
#pragma omp for ordered schedule(dynamic) nowait
        for (int i = 0; i < 6000; i++) {
            work(10);
#pragma omp ordered
            work(20);
        }
    } else if (strcmp(kind, "tasks") == 0) {
#pragma omp single nowait
        for (int i = 0; i < 6000; i++) {
#pragma omp task
            work(30);
            work(5);
        }
    }
    omp_destroy_lock(&lock);
    return 0;
}
