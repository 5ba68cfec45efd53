// Locks that are contended, for times that are known.
//
// locks [how=mutex|rwlock|semaphore|all]
//       [threads=3]   beside the one that holds it
//       [rounds=20] [hold=MS]
//       [until=FILE]  goes on, instead of for so many rounds, until this file exists
//
// In each round the first thread takes the lock, all others come to it, and it is
// held so long from when they do. Writes for each lock
// "NAME waits N total_ns T max_ns M", as the threads saw it.
#include "common.h"
#include <semaphore.h>
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static long threads, rounds, hold;
static const char *until;
static atomic_int is_over;
static pthread_barrier_t begin, end;
static atomic_ullong waits, total, longest;

__attribute__((noipa)) static void take_mutex(void)
{
    pthread_mutex_lock(&mutex); // SITE mutex
    __asm__ volatile("");       // else the call is a jump
}

__attribute__((noipa)) static void take_rwlock(void)
{
    pthread_rwlock_wrlock(&rwlock); // SITE rwlock
    __asm__ volatile("");
}

__attribute__((noipa)) static void take_semaphore(void)
{
    while (sem_wait(&semaphore) != 0) { // SITE semaphore
    }
}

static void give_mutex(void)
{
    pthread_mutex_unlock(&mutex);
}

static void give_rwlock(void)
{
    pthread_rwlock_unlock(&rwlock);
}

static void give_semaphore(void)
{
    sem_post(&semaphore);
}

struct lock {
    const char *name;
    void (*take)(void), (*give)(void);
};

static const struct lock locks[] = {
    {"mutex", take_mutex, give_mutex},
    {"rwlock", take_rwlock, give_rwlock},
    {"semaphore", take_semaphore, give_semaphore},
};

static const struct lock *lock;

static void *work(void *argument)
{
    long me = (long)argument;
    for (long round = 0; until ? !is_over : round < rounds; round++) {
        if (me == 0)
            lock->take();
        pthread_barrier_wait(&begin);
        if (me == 0) {
            // Before the end of the round, so that all see it alike.
            is_over = until && access(until, F_OK) == 0;
            sleep_us(hold * 1000);
            lock->give();
        } else {
            uint64_t since = now_ns();
            lock->take();
            uint64_t waited = now_ns() - since;
            lock->give();
            waits++;
            total += waited;
            unsigned long long most = longest;
            while (waited > most && !atomic_compare_exchange_weak(&longest, &most, waited)) {
            }
        }
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void run(const struct lock *which)
{
    lock = which;
    waits = total = longest = 0;
    pthread_t others[64];
    for (long i = 0; i <= threads; i++)
        must(pthread_create(&others[i], NULL, work, (void *)i));
    for (long i = 0; i <= threads; i++)
        must(pthread_join(others[i], NULL));
    printf("%s waits %llu total_ns %llu max_ns %llu\n", lock->name, waits, total, longest);
}

int main(int argc, char **argv)
{
    const char *how = text_option(argc, argv, "how");
    threads = option(argc, argv, "threads", 3);
    rounds = option(argc, argv, "rounds", 20);
    hold = option(argc, argv, "hold", 10);
    until = text_option(argc, argv, "until");
    must(sem_init(&semaphore, 0, 1));
    must(pthread_barrier_init(&begin, NULL, (unsigned)threads + 1));
    must(pthread_barrier_init(&end, NULL, (unsigned)threads + 1));
    for (unsigned i = 0; i < sizeof locks / sizeof locks[0]; i++)
        if (!how || strcmp(how, "all") == 0 || strcmp(how, locks[i].name) == 0)
            run(&locks[i]);
    return 0;
}
