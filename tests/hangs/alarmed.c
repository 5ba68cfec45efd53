// A thread waits for a semaphore that the handler of an alarm posts: not a hang.
// build: gcc -O2 -g -pthread
// outcome: unknown
// must: an alarm of the process may wake it
// never: no thread of the process is left
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>
static sem_t due;
static void rings(int signal) {
    (void)signal;
    sem_post(&due);
}
static void *serve(void *argument) {
    for (;;)
        sem_wait(&due);
    return argument;
}
int main(void) {
    sem_init(&due, 0, 0);
    signal(SIGALRM, rings);
    struct itimerval hourly = {{3600, 0}, {3600, 0}};
    setitimer(ITIMER_REAL, &hourly, NULL);
    pthread_t server;
    pthread_create(&server, NULL, serve, NULL);
    return pthread_join(server, NULL);
}
