// Barriers of the program's own: sbt is told that these functions are some.
//
// calls [rounds=50] [skew=US]
//   bar_wait   of mutex and condition variable, with object and count
//   sync_all   without arguments, built on pthread_barrier_wait
//   spin_wait  of atomics alone, the object its third argument
#include "common.h"
#include <stdatomic.h>

#define THREADS 3
static long rounds, skew;

struct bar {
    pthread_mutex_t mutex;
    pthread_cond_t all_here;
    int waiting;
    unsigned episode;
};

static struct bar all = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
static struct bar pair = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

__attribute__((noinline)) void bar_wait(struct bar *bar, int count)
{
    pthread_mutex_lock(&bar->mutex);
    unsigned episode = bar->episode;
    if (++bar->waiting == count) {
        bar->waiting = 0;
        bar->episode++;
        pthread_cond_broadcast(&bar->all_here);
    }
    while (episode == bar->episode)
        pthread_cond_wait(&bar->all_here, &bar->mutex);
    pthread_mutex_unlock(&bar->mutex);
}

static pthread_barrier_t below;
static _Thread_local volatile long passed;

__attribute__((noinline)) void sync_all(void)
{
    pthread_barrier_wait(&below);
    passed++;
}

struct spin {
    atomic_int waiting, episode;
};
static struct spin spin;

__attribute__((noinline)) void spin_wait(long rank, const char *why, struct spin *spin)
{
    int episode = atomic_load(&spin->episode);
    if (atomic_fetch_add(&spin->waiting, 1) + 1 == THREADS) {
        atomic_store(&spin->waiting, 0);
        atomic_fetch_add(&spin->episode, 1);
    }
    while (atomic_load(&spin->episode) == episode)
        sched_yield();
    passed += rank + why[0];
}

static void *work(void *argument)
{
    long me = (long)argument;
    for (long round = 0; round < rounds; round++) {
        sleep_us(skew * me);
        bar_wait(&all, THREADS); // SITE all
        if (me < 2)
            bar_wait(&pair, 2); // SITE pair
        sync_all(); // SITE sync
        spin_wait(me, "phase", &spin); // SITE spin
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    skew = option(argc, argv, "skew", 0);
    must(pthread_barrier_init(&below, NULL, THREADS));
    pthread_t threads[THREADS];
    for (long i = 1; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)i));
    work(NULL);
    for (long i = 1; i < THREADS; i++)
        must(pthread_join(threads[i], NULL));
    printf("done\n");
    return 0;
}
