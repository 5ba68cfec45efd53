// A daemon that waits for a semaphore until the handler of a signal posts it: not a hang.
// build: gcc -O2 -g -pthread
// outcome: unknown
// must: semaphore
// must: a handler of a signal may wake it
// never: no thread of the process is left
// never: for ever
#include <semaphore.h>
#include <signal.h>
static sem_t stop;
static void end(int signal) {
    (void)signal;
    sem_post(&stop);
}
int main(void) {
    sem_init(&stop, 0, 0);
    struct sigaction action = {.sa_handler = end, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, 0);
    while (sem_wait(&stop))
        ;
}
