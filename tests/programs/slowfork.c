// Forks slowly: the kernel first copies the many events that children inherit, and then the memory.
// Each child comes to a barrier of its own.
//
// slowfork [events=10000] [children=30]
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common.h"

int main(int argc, char **argv)
{
    long events = option(argc, argv, "events", 10000);
    long children = option(argc, argv, "children", 30);
    struct rlimit files;
    must(getrlimit(RLIMIT_NOFILE, &files));
    files.rlim_cur = files.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &files));
    struct perf_event_attr nothing = {
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .size = sizeof nothing,
        .inherit = 1,
        .disabled = 1,
    };
    for (long i = 0; i < events; i++)
        if (syscall(SYS_perf_event_open, &nothing, 0, -1, -1, 0) < 0) {
            perror("perf_event_open");
            return 9;
        }
    printf("ready\n");
    fflush(stdout);
    long failed = 0;
    for (long i = 0; i < children; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_barrier_t barrier;
            must(pthread_barrier_init(&barrier, NULL, 1));
            usleep(30000);
            pthread_barrier_wait(&barrier);
            _exit(0);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child)
            return 9;
        failed += status != 0;
    }
    printf("failed %ld\n", failed);
    return 0;
}
