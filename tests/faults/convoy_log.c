// Threads write to a slow log, and hold its lock meanwhile. The barrier is called on the same line.
//
// must: contended lock: threads wait
// must: append_log convoy_log.c:
// never: imbalance at
#include <pthread.h>
#include <unistd.h>
enum { THREADS = 4 };
static pthread_barrier_t done; static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; static volatile double sink;
static void compute(int n) { double s = 0; for (int i = 1; i < n; i++) s += 1.0 / (s + i); sink = s; }
static void append_log(void) { pthread_mutex_lock(&guard); usleep(2000); pthread_mutex_unlock(&guard); }
static void *worker(void *arg)
{
    for (int s = 0; s < 60; s++) { for (int k = 0; k < 2; k++) { compute(100000); append_log(); } pthread_barrier_wait(&done); }
    return arg;
}
int main(void)
{
    pthread_barrier_init(&done, NULL, THREADS);
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}
