// Processes that share a barrier, of which one does not come; only the first is looked at.
// build: gcc -O2 -g -pthread
// outcome: unknown
// must: others are in processes that were not looked at
// never: others have ended there
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
static pthread_barrier_t *barrier;
static void steps(int who) {
    for (int step = 0; step < 50; step++) {
        if (who == 2 && step == 30)
            for (;;)
                pause();
        pthread_barrier_wait(barrier);
    }
}
int main(void) {
    pthread_barrierattr_t shared;
    barrier = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &shared, 3);
    for (int who = 1; who < 3; who++)
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            steps(who);
            _exit(0);
        }
    steps(0);
    return 0;
}
