// Barriers as the PARMACS macros of SPLASH-2 make them for POSIX threads: mutex,
// condition variable, counter and cycle, expanded into the function that uses
// them. The first is written out as m4 does it, the second is a macro of one line.
//
// parmacs [threads=4] [rounds=100]  main is thread 0
//         [slow=I]     thread I comes last each time
//         [turn=1]     who comes last moves on by one thread every round
//         [load=US]    what the last one does more than the others
//         [base=US]    what all do
//         [sleep=1]    loads are slept
//         [barriers=1] only the first barrier
#include "common.h"

static struct barrier {
    pthread_mutex_t mutex;
    pthread_cond_t cv;
    unsigned long counter;
    unsigned long cycle;
} start = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0},
  finish = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static long threads, rounds, slow, turn, load, base, sleeps, both;

#define BARRIER(b, p)                                                                              \
    {                                                                                              \
        unsigned long Error, Cycle;                                                                \
        int Cancel, Temp;                                                                          \
        Error = pthread_mutex_lock(&(b).mutex);                                                    \
        if (Error != 0) {                                                                          \
            printf("Error while trying to get lock in barrier.\n");                                \
            exit(-1);                                                                              \
        }                                                                                          \
        Cycle = (b).cycle;                                                                         \
        if (++(b).counter != (p)) {                                                                \
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &Cancel);                               \
            while (Cycle == (b).cycle) {                                                           \
                Error = pthread_cond_wait(&(b).cv, &(b).mutex);                                    \
                if (Error != 0)                                                                    \
                    break;                                                                         \
            }                                                                                      \
            pthread_setcancelstate(Cancel, &Temp);                                                 \
        } else {                                                                                   \
            (b).cycle = !(b).cycle;                                                                \
            (b).counter = 0;                                                                       \
            Error = pthread_cond_broadcast(&(b).cv);                                               \
        }                                                                                          \
        pthread_mutex_unlock(&(b).mutex);                                                          \
    }

static void work(long me, long round)
{
    long last = turn ? round % threads : slow;
    long us = base + (me == last ? load : 0);
    if (sleeps)
        sleep_us(us);
    else
        spin_us(us);
}

static void *slave(void *argument)
{
    long me = (long)argument;
    for (long round = 0; round < rounds; round++) {
        work(me, round);
        {
            unsigned long Error, Cycle;
            int Cancel, Temp;

            Error = pthread_mutex_lock(&start.mutex);
            if (Error != 0) {
                printf("Error while trying to get lock in barrier.\n");
                exit(-1);
            }
            Cycle = start.cycle;
            if (++start.counter != (unsigned long)threads) {
                pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &Cancel);
                while (Cycle == start.cycle) {
                    Error = pthread_cond_wait(&start.cv, &start.mutex); // SITE wait
                    if (Error != 0) {
                        break;
                    }
                }
                pthread_setcancelstate(Cancel, &Temp);
            } else {
                start.cycle = !start.cycle;
                start.counter = 0;
                Error = pthread_cond_broadcast(&start.cv); // SITE broadcast
            }
            pthread_mutex_unlock(&start.mutex);
        }
        if (both) {
            work(me, round + 1);
            BARRIER(finish, (unsigned long)threads) // SITE macro
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 100);
    slow = option(argc, argv, "slow", -1);
    turn = option(argc, argv, "turn", 0);
    load = option(argc, argv, "load", 300);
    base = option(argc, argv, "base", 0);
    sleeps = option(argc, argv, "sleep", 0);
    both = option(argc, argv, "barriers", 2) > 1;
    pthread_t others[64];
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, slave, (void *)i));
    slave(0);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    return 0;
}
