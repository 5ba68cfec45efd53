// Condition variables that are used for other things than barriers.
//
// notbarriers what=NAME [threads=4] [rounds=300]
//
// queue     bounded buffer, one producer to the others, two condition variables
// lazy      the same with one for both, everything in one function
// handoff   a buffer of one place between two threads, in lock step
// pool      workers that a broadcast starts, and who tell when they are done
// readers   readers and writers, in functions of their own
// ticker    a thread that wakes the others at each tick, all in one function
// semaphore taken and given back by all
// lock      a lock of one's own that everybody always wants
// future    values that are made once and waited for
// latch     counted down once
// pipeline  stages that hand on from one to the next
// turns     threads that take turns
// pingpong  two of them, with a function for each half
// sleeper   a timed wait that nobody ever wakes
#include "common.h"

static long threads, rounds;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t full = PTHREAD_COND_INITIALIZER, empty = PTHREAD_COND_INITIALIZER;
static long held, made, taken, turn, busy;

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void put(long places)
{
    lock();
    while (held >= places)
        pthread_cond_wait(&empty, &mutex);
    held++;
    pthread_cond_signal(&full);
    unlock();
}

static int take(long all)
{
    lock();
    while (held == 0 && taken < all)
        pthread_cond_wait(&full, &mutex);
    int got = taken < all;
    if (got) {
        held--;
        taken++;
    }
    if (taken == all)
        pthread_cond_broadcast(&full);
    pthread_cond_signal(&empty);
    unlock();
    return got;
}

static void *queue(void *argument)
{
    if (argument == NULL)
        for (long i = 0; i < rounds; i++)
            put(8);
    else
        while (take(rounds))
            spin_us(20);
    return NULL;
}

static void *lazy(void *argument)
{
    for (long i = 0; i < (argument ? rounds : rounds * (threads - 1)); i++) {
        pthread_mutex_lock(&mutex);
        if (argument == NULL) {
            while (held >= 3)
                pthread_cond_wait(&full, &mutex);
            held++;
        } else {
            while (held == 0)
                pthread_cond_wait(&full, &mutex);
            held--;
        }
        pthread_cond_broadcast(&full);
        pthread_mutex_unlock(&mutex);
        spin_us(argument ? 60 : 20);
    }
    return NULL;
}

static void *handoff(void *argument)
{
    for (long i = 0; i < rounds; i++) {
        if (argument == NULL) {
            spin_us(60);
            lock();
            while (held)
                pthread_cond_wait(&empty, &mutex);
            held = 1;
            pthread_cond_signal(&full);
            unlock();
        } else if ((long)argument == 1) {
            lock();
            while (!held)
                pthread_cond_wait(&full, &mutex);
            held = 0;
            pthread_cond_signal(&empty);
            unlock();
            spin_us(60);
        }
    }
    return NULL;
}

static void *pool(void *argument)
{
    for (long i = 1; i <= rounds; i++) {
        if (argument == NULL) {
            lock();
            made = i;
            busy = threads - 1;
            pthread_cond_broadcast(&full);
            while (busy > 0)
                pthread_cond_wait(&empty, &mutex);
            unlock();
            spin_us(100);
        } else {
            lock();
            while (made < i)
                pthread_cond_wait(&full, &mutex);
            unlock();
            spin_us(100);
            lock();
            if (--busy == 0)
                pthread_cond_signal(&empty);
            unlock();
        }
    }
    return NULL;
}

static void *readers(void *argument)
{
    for (long i = 0; i < rounds; i++) {
        int writes = argument == NULL || i % 5 == 0;
        lock();
        while (busy < 0 || (writes && busy > 0))
            pthread_cond_wait(&full, &mutex);
        busy += writes ? -1 : 1;
        unlock();
        spin_us(writes ? 100 : 60);
        lock();
        busy -= writes ? -1 : 1;
        if (busy == 0)
            pthread_cond_broadcast(&full);
        unlock();
        spin_us(20);
    }
    return NULL;
}

static void *ticker(void *argument)
{
    if (argument == NULL) {
        for (long i = 0; i < rounds; i++) {
            sleep_us(1000);
            pthread_mutex_lock(&mutex);
            made++;
            pthread_cond_broadcast(&full);
            pthread_mutex_unlock(&mutex);
        }
    } else {
        for (long seen = 0; seen < rounds;) {
            pthread_mutex_lock(&mutex);
            while (seen == made)
                pthread_cond_wait(&full, &mutex);
            seen = made;
            pthread_mutex_unlock(&mutex);
            spin_us(60);
        }
    }
    return NULL;
}

static void *semaphore(void *argument)
{
    (void)argument;
    for (long i = 0; i < rounds; i++) {
        lock();
        while (busy == 2)
            pthread_cond_wait(&full, &mutex);
        busy++;
        unlock();
        spin_us(100);
        lock();
        busy--;
        pthread_cond_signal(&full);
        unlock();
    }
    return NULL;
}

static void *own_lock(void *argument)
{
    (void)argument;
    for (long i = 0; i < rounds; i++) {
        lock();
        while (busy)
            pthread_cond_wait(&full, &mutex);
        busy = 1;
        unlock();
        spin_us(200);
        lock();
        busy = 0;
        pthread_cond_broadcast(&full);
        unlock();
        spin_us(60);
    }
    return NULL;
}

static void *future(void *argument)
{
    static struct {
        pthread_mutex_t mutex;
        pthread_cond_t ready;
        long value;
    } futures[1000];
    for (long i = 0; i < rounds; i++) {
        pthread_mutex_lock(&futures[i].mutex);
        if (argument == NULL) {
            futures[i].value = i + 1;
            pthread_cond_broadcast(&futures[i].ready);
        } else {
            while (futures[i].value == 0)
                pthread_cond_wait(&futures[i].ready, &futures[i].mutex);
        }
        pthread_mutex_unlock(&futures[i].mutex);
        spin_us(argument ? 0 : 300);
    }
    return NULL;
}

static void *latch(void *argument)
{
    if (argument == NULL) {
        lock();
        while (made < threads - 1)
            pthread_cond_wait(&full, &mutex);
        unlock();
    } else {
        spin_us(300 * (long)argument);
        lock();
        if (++made == threads - 1)
            pthread_cond_broadcast(&full);
        unlock();
    }
    return NULL;
}

static void *pipeline(void *argument)
{
    static long at[64];
    static pthread_cond_t next[64];
    long me = (long)argument;
    for (long i = 1; i <= rounds; i++) {
        if (me > 0) {
            lock();
            while (at[me - 1] < i)
                pthread_cond_wait(&next[me], &mutex);
            unlock();
        }
        spin_us(100);
        lock();
        at[me] = i;
        if (me + 1 < threads)
            pthread_cond_signal(&next[me + 1]);
        unlock();
    }
    return NULL;
}

static void *turns(void *argument)
{
    long me = (long)argument;
    for (long i = 0; i < rounds; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != me)
            pthread_cond_wait(&full, &mutex);
        spin_us(100);
        turn = (turn + 1) % threads;
        pthread_cond_broadcast(&full);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

__attribute__((noipa)) static void await(long me)
{
    lock();
    while (turn != me)
        pthread_cond_wait(&full, &mutex);
    unlock();
}

__attribute__((noipa)) static void pass(long to)
{
    lock();
    turn = to;
    pthread_cond_signal(&full);
    unlock();
}

static void *pingpong(void *argument)
{
    long me = (long)argument;
    for (long i = 0; me < 2 && i < rounds; i++) {
        await(me);
        spin_us(100);
        pass(!me);
        spin_us(60);
    }
    return NULL;
}

static void *sleeper(void *argument)
{
    (void)argument;
    for (long i = 0; i < rounds; i++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec = (until.tv_nsec + 500000) % 1000000000;
        lock();
        pthread_cond_timedwait(&full, &mutex, &until);
        unlock();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void *(*act)(void *);
    } all[] = {{"queue", queue},   {"lazy", lazy},     {"handoff", handoff},     {"pool", pool},
               {"readers", readers}, {"ticker", ticker}, {"semaphore", semaphore}, {"lock", own_lock},
               {"future", future}, {"latch", latch},   {"pipeline", pipeline},   {"turns", turns},
               {"pingpong", pingpong}, {"sleeper", sleeper}};
    const char *what = text_option(argc, argv, "what");
    threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 300);
    void *(*act)(void *) = NULL;
    for (size_t i = 0; what && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, what) == 0)
            act = all[i].act;
    if (act == NULL)
        return 2;
    pthread_t others[64];
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, act, (void *)i));
    act(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    return 0;
}
