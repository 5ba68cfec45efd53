// Two threads take items from a queue within each phase, and the first makes these too slowly.
//
// must: condition variable
// must: take cond_queue.c:
// never: all about equally long
// never: imbalance at
#include <pthread.h>
enum { THREADS = 3, ITEMS = 24 };
static pthread_barrier_t done; static volatile double sink;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int ready, taken;
static void compute(int n) { double s = 0; for (int i = 1; i < n; i++) s += 1.0 / (s + i); sink = s; }
static void produce(void) { for (int i = 0; i < ITEMS; i++) { compute(250000); pthread_mutex_lock(&guard); ready++; pthread_cond_signal(&filled); pthread_mutex_unlock(&guard); } }
static int take(void)
{
    pthread_mutex_lock(&guard);
    while (taken == ready && taken < ITEMS) pthread_cond_wait(&filled, &guard);
    int got = taken < ITEMS ? ++taken : 0;
    if (taken == ITEMS) pthread_cond_broadcast(&filled);
    pthread_mutex_unlock(&guard);
    return got;
}
static void *worker(void *arg)
{
    for (int s = 0; s < 40; s++) {
        if (!arg) produce(); else while (take()) compute(40000);
        pthread_barrier_wait(&done);
        if (!arg) ready = taken = 0;
        pthread_barrier_wait(&done);
    }
    return NULL;
}
int main(void)
{
    pthread_barrier_init(&done, NULL, THREADS);
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}
