// In every twentieth step one of two threads waits until its log was rotated.
//
// must: usleep called from
// must: rotate_log.c:
// must: T1
// never: imbalance at
#include <pthread.h>
#include <unistd.h>
enum { THREADS = 2 };
static pthread_barrier_t done; static volatile double sink;
static void compute(int n) { double s = 0; for (int i = 1; i < n; i++) s += 1.0 / (s + i); sink = s; }
__attribute__((noinline)) static void rotate_log(void) { usleep(40000); }
static void *worker(void *arg)
{
    for (int s = 0; s < 200; s++) { compute(700000); if (arg && s % 20 == 19) rotate_log(); pthread_barrier_wait(&done); }
    return NULL;
}
int main(void)
{
    pthread_barrier_init(&done, NULL, THREADS);
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}
