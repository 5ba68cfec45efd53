// A timer's signal will wake the only thread.
// build: gcc -O2 -g -pthread
// outcome: unknown
// must: semaphore
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <semaphore.h>
#include <signal.h>
#include <time.h>
static sem_t tick;
static void post(int unused) {
    (void)unused;
    sem_post(&tick);
}
int main(void) {
    timer_t timer;
    struct itimerspec later = {.it_value = {1000, 0}};
    sem_init(&tick, 0, 0);
    signal(SIGALRM, post);
    timer_create(CLOCK_MONOTONIC, NULL, &timer);
    timer_settime(timer, 0, &later, NULL);
    while (sem_wait(&tick))
        ;
    return 0;
}
