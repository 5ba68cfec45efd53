// Barriers of one's own, each a function of mutex and condition variable.
//
// condbarrier [how=plain|late|tail|timed|signal]  see below
//             [threads=4] [rounds=100] [load=US]
//             [slow=I] [turn=1]  who comes last; else whoever does
//             [stages=1]         as many stages, each of one thread less
//             [hold=MS]          each phase takes so long at least
//             [patience=US]      of who looks whether it may go on: 1000
//             [hang=1]           thread 0 leaves before the last round
#include "common.h"

struct barrier {
    pthread_mutex_t mutex;
    pthread_cond_t cv;
    unsigned needed, count, episode;
};

// Wakes with the mutex held.
__attribute__((noipa)) static int barrier_wait(struct barrier *b)
{
    pthread_mutex_lock(&b->mutex);
    unsigned episode = b->episode;
    if (++b->count == b->needed) {
        b->count = 0;
        b->episode++;
        pthread_cond_broadcast(&b->cv); // SITE plain broadcast
        pthread_mutex_unlock(&b->mutex);
        return 1;
    }
    while (episode == b->episode)
        pthread_cond_wait(&b->cv, &b->mutex); // SITE plain wait
    pthread_mutex_unlock(&b->mutex);
    return 0;
}

// Wakes when the mutex has been released, by the last call of the function.
__attribute__((noipa)) static int barrier_wait_late(struct barrier *b)
{
    pthread_mutex_lock(&b->mutex);
    unsigned episode = b->episode;
    if (++b->count == b->needed) {
        b->count = 0;
        b->episode++;
        pthread_mutex_unlock(&b->mutex);
        return pthread_cond_broadcast(&b->cv);
    }
    do
        pthread_cond_wait(&b->cv, &b->mutex); // SITE late wait
    while (episode == b->episode);
    pthread_mutex_unlock(&b->mutex);
    return 0;
}

// Wakes like the one before. Both ways out of the function are jumps.
__attribute__((noipa)) static void barrier_wait_tail(struct barrier *b)
{
    pthread_mutex_lock(&b->mutex);
    unsigned episode = b->episode;
    if (++b->count == b->needed) {
        b->count = 0;
        b->episode++;
        pthread_mutex_unlock(&b->mutex);
        pthread_cond_broadcast(&b->cv);
    } else {
        do
            pthread_cond_wait(&b->cv, &b->mutex); // SITE tail wait
        while (episode == b->episode);
        pthread_mutex_unlock(&b->mutex);
    }
}

static long patience;

// Looks now and then whether it may go on.
__attribute__((noipa)) static int barrier_wait_timed(struct barrier *b)
{
    pthread_mutex_lock(&b->mutex);
    unsigned episode = b->episode;
    if (++b->count == b->needed) {
        b->count = 0;
        b->episode++;
        pthread_cond_broadcast(&b->cv); // SITE timed broadcast
    } else {
        while (episode == b->episode) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += patience * 1000;
            if (until.tv_nsec >= 1000000000) {
                until.tv_sec++;
                until.tv_nsec -= 1000000000;
            }
            pthread_cond_timedwait(&b->cv, &b->mutex, &until); // SITE timed wait
        }
    }
    pthread_mutex_unlock(&b->mutex);
    return 0;
}

// Wakes one after the other.
__attribute__((noipa)) static int barrier_wait_signal(struct barrier *b)
{
    pthread_mutex_lock(&b->mutex);
    unsigned episode = b->episode;
    if (++b->count < b->needed) {
        while (episode == b->episode)
            pthread_cond_wait(&b->cv, &b->mutex); // SITE signal wait
    } else {
        b->episode++;
        while (--b->count > 0)
            pthread_cond_signal(&b->cv); // SITE signal signal
    }
    pthread_mutex_unlock(&b->mutex);
    return 0;
}

static struct barrier barrier = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};
static int (*meet)(struct barrier *) = barrier_wait;
static long threads, rounds, slow, turn, load, stages, hold, hang;
static pthread_barrier_t between;

static void *work(void *argument)
{
    long me = (long)argument;
    for (long stage = 0; stage < stages; stage++) {
        for (long round = 0; me < threads - stage && round < rounds; round++) {
            long last = turn ? round % (threads - stage) : slow;
            spin_us(me == last ? load : 0);
            sleep_us(hold * 1000);
            if (hang && me == 0 && round == rounds - 1)
                return NULL;
            if (meet == NULL)
                barrier_wait_tail(&barrier); // SITE tail call
            else
                meet(&barrier); // SITE call
        }
        if (stages > 1 && pthread_barrier_wait(&between) != 0)
            barrier.needed--;
        if (stages > 1)
            pthread_barrier_wait(&between);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = text_option(argc, argv, "how");
    if (how && strcmp(how, "late") == 0)
        meet = barrier_wait_late;
    if (how && strcmp(how, "tail") == 0)
        meet = NULL;
    if (how && strcmp(how, "timed") == 0)
        meet = barrier_wait_timed;
    if (how && strcmp(how, "signal") == 0)
        meet = barrier_wait_signal;
    threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 100);
    slow = option(argc, argv, "slow", -1);
    turn = option(argc, argv, "turn", 0);
    load = option(argc, argv, "load", 300);
    stages = option(argc, argv, "stages", 1);
    hold = option(argc, argv, "hold", 0);
    hang = option(argc, argv, "hang", 0);
    patience = option(argc, argv, "patience", 1000);
    barrier.needed = (unsigned)threads;
    must(pthread_barrier_init(&between, NULL, (unsigned)threads));
    pthread_t others[64];
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, work, (void *)i));
    if (hang)
        alarm(1);
    work(0);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    return 0;
}
