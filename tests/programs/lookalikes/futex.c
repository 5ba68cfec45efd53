// Threads that hand something to each other by futexes, in ways that are no barriers. All system
// calls are made by one function, as in many programs and languages' runtimes.
//
// futex what=KIND [how=call|inline]  by the C library's `syscall`, or by the instruction itself
//                 [threads=3] [rounds=3000] [load=50]  microseconds of work in each round
//
// events     two threads in turn, each with an event of its own
// roles      the same, both in one loop that asks whose part it plays
// ring       a token goes round, each thread has an event of its own
// turns      a token goes round in one word, everybody is woken
// doze       two threads in turn, who look for a while before they sleep
// stock      one thread makes what the others take
// parts      one makes and one takes, in one loop that asks whose part it plays
// slot       a place for one thing between two threads
// mutex      a lock that is always wanted
// herd       the same, and everybody is woken when it is given back
// semaphore  one place fewer than threads
// operation  a lock, taken and given back by one function
// rwlock     readers and writers
// dock       a thread gives the others one job at a time, and waits until it is done
// meet       who comes first waits for a partner, on a word of its own
// future     values that are made once, each waited for by all
// timed      threads that sleep until a time, and are woken early at times
#include "../common.h"
#include <limits.h>
#include <linux/futex.h>

static long threads, rounds, load;
static int is_inline;

__attribute__((noipa)) static long futex(int *word, int what, int value, struct timespec *until)
{
    if (!is_inline)
        return syscall(SYS_futex, word, what | FUTEX_PRIVATE_FLAG, value, until, NULL, 0);
    long result;
    register struct timespec *r10 __asm__("r10") = until;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_futex), "D"(word), "S"(what | FUTEX_PRIVATE_FLAG), "d"(value), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

#define GET(word) __atomic_load_n(&(word), __ATOMIC_SEQ_CST)
#define SET(word, value) __atomic_store_n(&(word), value, __ATOMIC_SEQ_CST)
#define SWAP(word, value) __atomic_exchange_n(&(word), value, __ATOMIC_SEQ_CST)
#define ADD(word, value) __atomic_fetch_add(&(word), value, __ATOMIC_SEQ_CST)

static void wait_for(int *word, int value)
{
    futex(word, FUTEX_WAIT, value, NULL);
}

static void wake(int *word, int most)
{
    futex(word, FUTEX_WAKE, most, NULL);
}

static int become(int *word, int from, int to)
{
    return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// An event, which one thread waits for.
static int event[64];

static void await(int *e)
{
    while (SWAP(*e, 0) == 0)
        wait_for(e, 0);
}

static void signal_it(int *e)
{
    if (SWAP(*e, 1) == 0)
        wake(e, 1);
}

static void *events(void *argument)
{
    long me = (long)argument;
    for (long i = 0; me < 2 && i < rounds; i++) {
        if (me == 0) {
            spin_us(load);
            signal_it(&event[1]);
            await(&event[0]);
        } else {
            await(&event[1]);
            spin_us(load);
            signal_it(&event[0]);
        }
    }
    return NULL;
}

static volatile double sink;

__attribute__((noipa)) static void step(void)
{
    for (long i = 0; i < load * 200; i++)
        sink = sink + 1;
}

static void *roles(void *argument)
{
    long me = (long)argument;
    for (long i = 0; me < 2 && i < rounds; i++) {
        if (me == 0) {
            step();
            step();
            signal_it(&event[1]);
            await(&event[0]);
        } else {
            await(&event[1]);
            step();
            step();
            signal_it(&event[0]);
        }
    }
    return NULL;
}

static void *ring(void *argument)
{
    long me = (long)argument;
    for (long i = 0; i < rounds; i++) {
        if (me > 0 || i > 0)
            await(&event[me]);
        spin_us(load);
        if (me + 1 < threads || i + 1 < rounds)
            signal_it(&event[(me + 1) % threads]);
    }
    return NULL;
}

static int turn;

static void *turns(void *argument)
{
    int me = (int)(long)argument;
    for (long i = 0; i < rounds; i++) {
        for (int now; (now = GET(turn)) != me;)
            wait_for(&turn, now);
        step();
        step();
        SET(turn, (me + 1) % (int)threads);
        wake(&turn, INT_MAX);
    }
    return NULL;
}

static int sleeps;

static void *doze(void *argument)
{
    int me = (int)(long)argument;
    for (long i = 0; me < 2 && i < rounds; i++) {
        for (long looks = 0; GET(turn) != me; looks++)
            if (looks > 2000 + 97 * (i % 64)) {
                SET(sleeps, 1);
                wait_for(&turn, !me);
            }
        step();
        SET(turn, !me);
        if (SWAP(sleeps, 0))
            wake(&turn, INT_MAX);
        if (i % 3 == me)
            step();
    }
    return NULL;
}

static int stored;

static void *stock(void *argument)
{
    if (argument == NULL) {
        for (long i = 0; i < rounds; i++) {
            spin_us(load);
            ADD(stored, 1);
            wake(&stored, 1);
        }
        while (GET(stored) > 0)
            sleep_us(100);
        SET(stored, -1);
        wake(&stored, INT_MAX);
        return NULL;
    }
    for (int now; (now = GET(stored)) >= 0;)
        if (now == 0)
            wait_for(&stored, 0);
        else if (become(&stored, now, now - 1))
            spin_us(load);
    return NULL;
}

static void *parts(void *argument)
{
    long makes = argument == NULL;
    for (long i = 0; (long)argument < 2 && i < rounds; i++) {
        if (makes) {
            step();
            ADD(stored, 1);
            wake(&stored, INT_MAX);
        } else {
            while (GET(stored) == 0)
                wait_for(&stored, 0);
            ADD(stored, -1);
        }
    }
    return NULL;
}

static int slot_full;

static void *slot(void *argument)
{
    for (long i = 0; (long)argument < 2 && i < rounds; i++) {
        int full = argument != NULL;
        spin_us(load);
        while (GET(slot_full) != full)
            wait_for(&slot_full, !full);
        SET(slot_full, !full);
        wake(&slot_full, INT_MAX);
    }
    return NULL;
}

static int word;

static void lock(void)
{
    if (become(&word, 0, 1))
        return;
    while (SWAP(word, 2) != 0)
        wait_for(&word, 2);
}

static void unlock(int most)
{
    if (SWAP(word, 0) == 2)
        wake(&word, most);
}

static void *mutex(void *argument)
{
    for (long i = 0; i < rounds; i++) {
        lock();
        spin_us(load);
        unlock(1);
        spin_us(argument ? load / 4 : load / 8);
    }
    return NULL;
}

static void *herd(void *argument)
{
    for (long i = 0; i < rounds; i++) {
        lock();
        spin_us(load);
        unlock(INT_MAX);
        spin_us(argument ? load / 4 : load / 8);
    }
    return NULL;
}

static int places;

static void *semaphore(void *argument)
{
    (void)argument;
    for (long i = 0; i < rounds; i++) {
        for (int now; (now = GET(places)) == 0 || !become(&places, now, now - 1);)
            if (now == 0)
                wait_for(&places, 0);
        spin_us(load);
        ADD(places, 1);
        wake(&places, 1);
    }
    return NULL;
}

__attribute__((noipa)) static void operate(int *semaphore, int by)
{
    if (by > 0) {
        ADD(*semaphore, by);
        wake(semaphore, INT_MAX);
        return;
    }
    for (int now; (now = GET(*semaphore)) == 0 || !become(semaphore, now, now - 1);)
        wait_for(semaphore, 0);
}

static void *operation(void *argument)
{
    (void)argument;
    for (long i = 0; i < rounds; i++) {
        operate(&places, -1);
        spin_us(load);
        operate(&places, 1);
    }
    return NULL;
}

static void *rwlock(void *argument)
{
    for (long i = 0; i < rounds; i++) {
        int writes = (i + (long)argument) % 3 == 0;
        for (int now;;) {
            now = GET(word);
            if (now < 0 || (writes && now > 0))
                wait_for(&word, now);
            else if (become(&word, now, writes ? -1 : now + 1))
                break;
        }
        spin_us(load);
        if (ADD(word, writes ? 1 : -1) == (writes ? -1 : 1))
            wake(&word, INT_MAX);
    }
    return NULL;
}

static int job, done;

static void *dock(void *argument)
{
    for (int i = 0; i < rounds; i++) {
        if (argument == NULL) {
            SET(done, 0);
            SET(job, i + 1);
            wake(&job, INT_MAX);
            for (int now; (now = GET(done)) < threads - 1;)
                wait_for(&done, now);
            spin_us(load);
        } else {
            while (GET(job) == i)
                wait_for(&job, i);
            spin_us(load);
            if (ADD(done, 1) == threads - 2)
                wake(&done, 1);
        }
    }
    return NULL;
}

static int *partner;

static void *meet(void *argument)
{
    int *mine = &event[(long)argument];
    for (long i = 0; i < rounds; i++) {
        spin_us(load * ((i + (long)argument) % 3));
        lock();
        int *other = partner;
        if (other) {
            partner = NULL;
            unlock(1);
            SET(*other, 1);
            wake(other, 1);
        } else {
            SET(*mine, 0);
            partner = mine;
            unlock(1);
            // The last one has nobody to wait for.
            struct timespec until = {0, 20000000};
            while (GET(*mine) == 0 && futex(mine, FUTEX_WAIT, 0, &until) == 0) {
            }
            lock();
            if (partner == mine)
                partner = NULL;
            unlock(1);
        }
    }
    return NULL;
}

static void *future(void *argument)
{
    static int ready[10000];
    for (long i = 0; i < rounds; i++) {
        if (argument == NULL) {
            spin_us(load);
            SET(ready[i], 1);
            wake(&ready[i], INT_MAX);
        } else {
            while (GET(ready[i]) == 0)
                wait_for(&ready[i], 0);
        }
    }
    return NULL;
}

static void *timed(void *argument)
{
    for (long i = 0; i < rounds; i++) {
        struct timespec until = {0, 200000};
        if (argument == NULL) {
            spin_us(load);
            if (i % 7 == 0)
                wake(&word, INT_MAX);
        } else {
            futex(&word, FUTEX_WAIT, 0, &until);
            spin_us(load / 4);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void *(*act)(void *);
    } all[] = {{"events", events}, {"roles", roles},         {"ring", ring},
               {"turns", turns},   {"doze", doze},           {"stock", stock},
               {"parts", parts},   {"slot", slot},           {"mutex", mutex},
               {"herd", herd},     {"semaphore", semaphore}, {"operation", operation},
               {"rwlock", rwlock}, {"dock", dock},           {"meet", meet},
               {"future", future}, {"timed", timed}};
    const char *what = text_option(argc, argv, "what");
    const char *how = text_option(argc, argv, "how");
    is_inline = how && strcmp(how, "inline") == 0;
    threads = option(argc, argv, "threads", 3);
    rounds = option(argc, argv, "rounds", 3000);
    load = option(argc, argv, "load", 50);
    if (what && strcmp(what, "operation") == 0)
        places = 1;
    else if (what && strcmp(what, "semaphore") == 0)
        places = (int)threads - 1;
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
