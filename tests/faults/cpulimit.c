// Another process stops the program ten times in a second, as cpulimit does.
//
// must: the program was stopped: a signal
// never: asleep in the work
// never: imbalance at
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <sys/wait.h>
static pthread_barrier_t done; static volatile double sink;
static void compute(int n) { double s = 0; for (int i = 1; i < n; i++) s += 1.0 / (s + i); sink = s; }
static void *worker(void *arg)
{
    for (int s = 0; s < 60; s++) {
        compute(2000000);
        pthread_barrier_wait(&done);
    }
    return arg;
}
int main(void)
{
    pid_t me = getpid(), child = fork();
    if (!child) { for (int i = 0; i < 10; i++) { usleep(50000); kill(me, SIGSTOP); usleep(50000); kill(me, SIGCONT); } _exit(0); }
    pthread_barrier_init(&done, NULL, 2);
    pthread_t t[2];
    for (long i = 0; i < 2; i++) pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    waitpid(child, NULL, 0);
}
