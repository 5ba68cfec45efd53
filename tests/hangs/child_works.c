// The main thread comes when its child has ended, and the child computes: not a hang.
// build: gcc -O2 -g -pthread
// outcome: any
// must: child_works
// must: waits for the end of its child process
// never: has ended without coming
// never: count is too large
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_barrier_t ready;
static void *meet(void *argument) {
    pthread_barrier_wait(&ready);
    return argument;
}
int main(void) {
    pthread_barrier_init(&ready, NULL, 3);
    pid_t child = fork();
    if (child == 0) {
        // Half of the time only: other programs need a CPU, too.
        for (volatile long turn = 0;; turn++)
            if (turn % 1000000 == 0)
                usleep(2000);
    }
    pthread_t workers[2];
    for (int at = 0; at < 2; at++)
        pthread_create(&workers[at], NULL, meet, NULL);
    waitpid(child, NULL, 0);
    pthread_barrier_wait(&ready);
    return 0;
}
