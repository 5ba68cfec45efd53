/* Threads that meet as those of PARSEC do: who comes before all have left the round before is
 * kept out, and the last to leave lets it in, at the same condition variable.
 *
 * parsec [threads=4] [rounds=200] [load=2000] [spin=0]
 *   load  the first and the last thread take turns in sleeping so many µs; others a fifth of that
 *   spin  how often one looks whether it may go on before it waits
 */
#include "common.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile int here, coming = 1;
static int members;
static long spin;

/* Looks for a while without the mutex, and waits only then. */
#define LOOK(keeps)                                                                                \
    do {                                                                                           \
        pthread_mutex_unlock(&mutex);                                                              \
        for (volatile long i = 0; i < spin && (keeps); i++)                                        \
            ;                                                                                      \
        while (pthread_mutex_trylock(&mutex) != 0)                                                 \
            ;                                                                                      \
    } while (0)

__attribute__((noinline)) static void meet_spinning(void) {
    pthread_mutex_lock(&mutex);
    if (!coming) {
        LOOK(!coming);
        while (!coming)
            pthread_cond_wait(&changed, &mutex);
    }
    if (++here == members) {
        coming = 0;
        pthread_cond_broadcast(&changed); // SITE spinning broadcast
    } else {
        LOOK(coming);
        while (coming)
            pthread_cond_wait(&changed, &mutex); // SITE spinning wait
    }
    if (--here == 0) {
        coming = 1;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&mutex);
}

__attribute__((noinline)) static void meet(void) {
    pthread_mutex_lock(&mutex);
    while (!coming)
        pthread_cond_wait(&changed, &mutex);
    if (++here == members) {
        coming = 0;
        pthread_cond_broadcast(&changed); // SITE broadcast
    } else {
        while (coming)
            pthread_cond_wait(&changed, &mutex); // SITE wait
    }
    if (--here == 0) {
        coming = 1;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&mutex);
}

static long threads, rounds, load;

static void *work(void *argument) {
    long me = (long)argument;
    for (long round = 0; round < rounds; round++) {
        long last = round % 2 ? 0 : threads - 1;
        sleep_us(me == last ? load : load / 5);
        if (spin)
            meet_spinning();
        else
            meet();
    }
    return NULL;
}

int main(int argc, char **argv) {
    threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 200);
    load = option(argc, argv, "load", 2000);
    spin = option(argc, argv, "spin", 0);
    members = (int)threads;
    pthread_t others[64];
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, work, (void *)i));
    work(0);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    return 0;
}
