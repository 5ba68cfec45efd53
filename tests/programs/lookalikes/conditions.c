// Threads that hand something to each other by a mutex and a condition variable, in one function
// for all, in ways that are no barriers.
//
// conditions what=KIND [rounds=3000] [load=50]  microseconds of work in each round
//
// parts    one makes and one takes, with the mutex held while it is asked whose part it is
// count    the same, and who makes counts what there is
// doze     two threads in turn, who look for a while before they sleep
#include "../common.h"

static long rounds, load;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long stored, made, turn, sleeps;

static void *parts(void *argument)
{
    for (long i = 0; i < rounds; i++) {
        spin_us(argument ? load / 2 : load);
        pthread_mutex_lock(&mutex);
        if (argument == NULL) {
            stored++;
            pthread_cond_signal(&changed);
        } else {
            while (stored == 0)
                pthread_cond_wait(&changed, &mutex);
            stored--;
        }
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *count(void *argument)
{
    long mine = 0;
    for (long i = 0; i < rounds; i++) {
        spin_us(argument ? load / 2 : load);
        pthread_mutex_lock(&mutex);
        if (argument) {
            while (mine == made)
                pthread_cond_wait(&changed, &mutex);
            mine++;
        } else {
            made++;
            pthread_cond_broadcast(&changed);
        }
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *doze(void *argument)
{
    long me = argument != NULL;
    for (long i = 0; i < rounds; i++) {
        for (long looks = 0; __atomic_load_n(&turn, __ATOMIC_SEQ_CST) != me; looks++)
            if (looks > 2000 + 97 * (i % 64)) {
                pthread_mutex_lock(&mutex);
                sleeps = 1;
                while (turn != me)
                    pthread_cond_wait(&changed, &mutex);
                pthread_mutex_unlock(&mutex);
            }
        spin_us(load);
        pthread_mutex_lock(&mutex);
        __atomic_store_n(&turn, !me, __ATOMIC_SEQ_CST);
        if (sleeps) {
            sleeps = 0;
            pthread_cond_signal(&changed);
        }
        pthread_mutex_unlock(&mutex);
        spin_us(i % 3 == me ? load : 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *what = text_option(argc, argv, "what");
    rounds = option(argc, argv, "rounds", 3000);
    load = option(argc, argv, "load", 50);
    void *(*act)(void *) = NULL;
    if (what && strcmp(what, "parts") == 0)
        act = parts;
    else if (what && strcmp(what, "count") == 0)
        act = count;
    else if (what && strcmp(what, "doze") == 0)
        act = doze;
    if (act == NULL)
        return 2;
    pthread_t other;
    must(pthread_create(&other, NULL, act, &turn));
    act(NULL);
    must(pthread_join(other, NULL));
    return 0;
}
