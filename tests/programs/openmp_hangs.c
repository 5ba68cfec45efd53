// A team of OpenMP that waits for one who reads from a pipe; with seconds, until then.
//
// openmp_hangs barrier|loop|region|task [SECONDS]
#include "common.h"
#include <omp.h>
#include <signal.h>

#define THREADS 4
static int ends[2];
static volatile int done;

__attribute__((noinline)) static void fetch(void)
{
    char byte;
    // The others come to where they wait.
    sleep_us(100000);
    printf("stuck %d\n", getpid());
    fflush(stdout);
    if (read(ends[0], &byte, 1) < 0)
        abort();
    done++;
}

static void feed(int signal)
{
    (void)signal;
    if (write(ends[1], "x", 1) != 1)
        abort();
}

static void team(const char *name)
{
    int at_barrier = strcmp(name, "barrier") == 0, in_loop = strcmp(name, "loop") == 0;
    int in_task = strcmp(name, "task") == 0;
#pragma omp parallel num_threads(THREADS)
    {
        int last = omp_get_thread_num() == THREADS - 1;
        if (at_barrier) {
            if (last)
                fetch();
#pragma omp barrier // SITE barrier
            done++;
        }
        if (in_loop) {
#pragma omp for schedule(static, 1) // SITE loop
            for (int i = 0; i < THREADS; i++)
                if (i == THREADS - 1)
                    fetch();
        }
        if (in_task) {
            // All come to the barrier, and there one of them is given a task.
#pragma omp barrier
#pragma omp master
            for (int i = 0; i < 4 * THREADS; i++) {
#pragma omp task firstprivate(i)
                if (i == 2 * THREADS)
                    fetch();
                else
                    sleep_us(1000);
            }
#pragma omp barrier // SITE task
            done++;
        }
        if (!at_barrier && !in_loop && !in_task && last)
            fetch();
    }
}

int main(int argc, char **argv)
{
    if (argc < 2 || pipe(ends) != 0)
        return 2;
    if (argc > 2) {
        signal(SIGALRM, feed);
        alarm((unsigned)atoi(argv[2]));
    }
    team(argv[1]);
    return 0;
}
