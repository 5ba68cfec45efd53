// Barriers that only spin, and what looks like them.
//
// spins [how=sense|yield|ticket|count|patient|global|private|relaxed|inline|macro]  barriers
//       [how=lock|ticketlock|queuelock|turns|exchange|compute|one|clock]    none
//       [threads=4] [rounds=100]
//       [load=US]  each thread works so long before it comes, by its turn
//                  one of them twice as long
//       [late=MS]  before the first round
//       [stuck=MS] so long the first thread sleeps before it comes
#include "common.h"
#include <sched.h>

struct barrier {
    long needed;
    long count;
    long sense;
    long come;
};

struct lock {
    long next, serving, taken;
};

static long threads, rounds, load, stuck;
static volatile long stop, cell;
static struct barrier barrier;
static struct lock lock;
static __thread long sense_of_mine;

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELEASE)
#define PAUSE() __builtin_ia32_pause()
#define OWN __attribute__((noipa))
#ifdef __clang__
#undef OWN
#define OWN __attribute__((noinline))
#endif

// Those who come turn their sense, whoever comes last that of the barrier.
OWN void sense_wait(struct barrier *b)
{
    long mine = sense_of_mine = !sense_of_mine;
    if (__atomic_sub_fetch(&b->count, 1, __ATOMIC_ACQ_REL) == 0) {
        b->count = b->needed;
        STORE(b->sense, mine);
        return;
    }
    while (LOAD(b->sense) != mine) // SITE sense
        PAUSE();
}

OWN void yield_wait(struct barrier *b)
{
    long mine = !LOAD(b->sense);
    if (__atomic_sub_fetch(&b->count, 1, __ATOMIC_ACQ_REL) == 0) {
        b->count = b->needed;
        STORE(b->sense, mine);
        return;
    }
    while (LOAD(b->sense) != mine)
        sched_yield(); // SITE yield
}

// Nothing is set back: each round ends at a higher number.
OWN void ticket_wait(struct barrier *b)
{
    long ticket = __atomic_fetch_add(&b->come, 1, __ATOMIC_ACQ_REL);
    long end = (ticket / b->needed + 1) * b->needed;
    while (LOAD(b->come) < end) // SITE ticket
        ;
}

OWN int count_wait(struct barrier *b)
{
    long round = LOAD(b->sense);
    if (__atomic_add_fetch(&b->come, 1, __ATOMIC_ACQ_REL) % b->needed == 0) {
        __atomic_add_fetch(&b->sense, 1, __ATOMIC_RELEASE);
        return 1;
    }
    do { // SITE count
        PAUSE();
    } while (LOAD(b->sense) == round);
    return 0;
}

// Spins for a while, then gives way.
OWN void patient_wait(struct barrier *b)
{
    long mine = !LOAD(b->sense);
    if (__atomic_sub_fetch(&b->count, 1, __ATOMIC_ACQ_REL) == 0) {
        b->count = b->needed;
        STORE(b->sense, mine);
        return;
    }
    int turns = 0;
    while (LOAD(b->sense) != mine) { // SITE patient
        if (++turns > 1000) {
            sched_yield();
            turns = 0;
        } else {
            PAUSE();
        }
    }
}

// One for all, without an argument.
OWN void global_wait(void)
{
    long mine = !LOAD(barrier.sense);
    if (__atomic_sub_fetch(&barrier.count, 1, __ATOMIC_ACQ_REL) == 0) {
        barrier.count = barrier.needed;
        STORE(barrier.sense, mine);
        return;
    }
    while (LOAD(barrier.sense) != mine) // SITE global
        PAUSE();
}

// What it is given is the thread's own, and not the barrier.
struct mine {
    long sense;
};

OWN void private_wait(struct mine *me)
{
    me->sense = !me->sense;
    if (__atomic_sub_fetch(&barrier.count, 1, __ATOMIC_ACQ_REL) == 0) {
        barrier.count = barrier.needed;
        STORE(barrier.sense, me->sense);
        return;
    }
    while (LOAD(barrier.sense) != me->sense) // SITE private
        PAUSE();
}

static inline void relax(void)
{
    PAUSE();
}

// The pause is a function that is inlined.
OWN void relaxed_wait(struct barrier *b)
{
    long round = LOAD(b->sense);
    if (__atomic_fetch_add(&b->come, 1, __ATOMIC_SEQ_CST) == b->needed - 1) {
        STORE(b->come, 0);
        __atomic_fetch_add(&b->sense, 1, __ATOMIC_SEQ_CST);
        return;
    }
    while (LOAD(b->sense) == round) // SITE relaxed
        relax();
}

// Lets the next thread go, and waits for the own turn.
OWN void turn_wait(long *turn, long me, long next)
{
    STORE(*turn, next);
    while (LOAD(*turn) != me)
        PAUSE();
}

struct waiter {
    struct waiter *next;
    long locked;
};

static struct waiter *last_waiter;

// Each waits for a word of its own.
OWN void lock_by_queue(struct waiter *me)
{
    STORE(me->next, NULL);
    STORE(me->locked, 1);
    struct waiter *before = __atomic_exchange_n(&last_waiter, me, __ATOMIC_ACQ_REL);
    if (!before)
        return;
    STORE(before->next, me);
    while (LOAD(me->locked))
        PAUSE();
}

static void unlock_queue(struct waiter *me)
{
    struct waiter *self = me;
    if (__atomic_compare_exchange_n(&last_waiter, &self, NULL, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return;
    while (!LOAD(me->next))
        PAUSE();
    STORE(me->next->locked, 0);
}

// Waits, and tries again.
OWN void lock_by_compare(struct lock *l)
{
    for (;;) {
        long before = LOAD(l->taken);
        if (before == 0 && __atomic_compare_exchange_n(&l->taken, &before, 1, 0,
                                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
        while (LOAD(l->taken) != 0)
            PAUSE();
    }
}

// Lock and unlock in one function.
OWN void add_by_ticket(struct lock *l)
{
    long mine = __atomic_fetch_add(&l->next, 1, __ATOMIC_ACQ_REL);
    while (LOAD(l->serving) != mine)
        PAUSE();
    cell++;
    STORE(l->serving, mine + 1);
}

OWN void lock_by_test(struct lock *l)
{
    while (__atomic_exchange_n(&l->taken, 1, __ATOMIC_ACQUIRE))
        while (LOAD(l->taken))
            PAUSE();
}

OWN void lock_by_exchange(struct lock *l)
{
    while (__atomic_exchange_n(&l->taken, 1, __ATOMIC_ACQUIRE))
        PAUSE();
}

OWN void lock_by_ticket(struct lock *l)
{
    long mine = __atomic_fetch_add(&l->next, 1, __ATOMIC_ACQ_REL);
    while (LOAD(l->serving) != mine) // SITE ticketlock
        PAUSE();
}

OWN long scan(const char *text)
{
    const char *p = text;
    while (*p)
        p++;
    return p - text;
}

OWN long sum(const volatile long *values, long n)
{
    long all = 0;
    for (long i = 0; i < n; i++)
        all += values[i];
    return all;
}

OWN long search(const long *values, long what)
{
    long i = 0;
    while (values[i] != what)
        i++;
    return i;
}

struct item {
    struct item *next;
    long key;
};

OWN struct item *chase(struct item *item, long key)
{
    while (item->key != key)
        item = item->next;
    return item;
}

OWN long count_until(void)
{
    long n = 0;
    while (!stop)
        n++;
    return n;
}

OWN void delay(const volatile long *turns)
{
    for (long i = 0; i < *turns; i++)
        PAUSE();
}

OWN void poll_clock(uint64_t end)
{
    while (now_ns() < end)
        ;
}

OWN uint64_t digest(uint64_t x)
{
    while (!stop)
        x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    return x;
}

// A search that can be given up.
OWN uint64_t mix_until(long turns, uint64_t x)
{
    for (long i = 0; i < turns; i++) {
        if (stop)
            break;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

OWN void store_until(void)
{
    while (!stop)
        cell = 1;
}

// The barrier has no function of its own.
OWN void inlined_rounds(struct barrier *b, long me)
{
    for (long round = 0; round < rounds; round++) {
        spin_us(round % threads == me ? 2 * load : load);
        long mine = !LOAD(b->sense);
        if (__atomic_sub_fetch(&b->count, 1, __ATOMIC_ACQ_REL) == 0) {
            b->count = b->needed;
            STORE(b->sense, mine);
        } else {
            while (LOAD(b->sense) != mine) // SITE inline
                PAUSE();
        }
    }
}

// A macro, as in PARMACS programs: two barriers a round, which are one object.
#define MEET()                                                                                    \
    do {                                                                                          \
        sense_of_mine = !sense_of_mine;                                                           \
        if (__atomic_fetch_sub(&barrier.count, 1, __ATOMIC_SEQ_CST) == 1) {                       \
            barrier.count = barrier.needed;                                                       \
            STORE(barrier.sense, sense_of_mine);                                                  \
        } else {                                                                                  \
            while (LOAD(barrier.sense) != sense_of_mine)                                          \
                ;                                                                                 \
        }                                                                                         \
    } while (0)

OWN void macro_rounds(long me)
{
    for (long round = 0; round < rounds; round++) {
        spin_us(round % threads == me ? 2 * load : load);
        MEET(); // SITE macro
        spin_us(me == 1 ? load / 4 : load / 8);
        MEET(); // SITE second macro
    }
}

static const char *how = "sense";

static int is(const char *name)
{
    return strcmp(how, name) == 0;
}

static __thread struct mine mine;

static void meet(void)
{
    if (is("sense"))
        sense_wait(&barrier);
    else if (is("yield"))
        yield_wait(&barrier);
    else if (is("ticket"))
        ticket_wait(&barrier);
    else if (is("count"))
        count_wait(&barrier);
    else if (is("patient"))
        patient_wait(&barrier);
    else if (is("global"))
        global_wait();
    else if (is("private"))
        private_wait(&mine);
    else if (is("relaxed"))
        relaxed_wait(&barrier);
}

static void *work(void *argument)
{
    static const long values[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 0};
    long me = (long)argument;
    uint64_t end = now_ns() + (uint64_t)(rounds * load) * 1000;
    if (me == 0)
        sleep_us(stuck * 1000);
    if (is("inline"))
        inlined_rounds(&barrier, me);
    else if (is("macro"))
        macro_rounds(me);
    else if (is("one") && me != 0)
        spin_us(rounds * load);
    else if (is("one"))
        while (!stop)
            PAUSE();
    else if (is("clock"))
        poll_clock(end);
    else if (is("compute"))
        while (now_ns() < end)
            for (int i = 0; i < 1000; i++)
                cell = sum(values, 16) + search(values, 0) + scan("a rather long text, with an end");
    else if (is("turns")) {
        static long turn;
        while (LOAD(turn) != me)
            PAUSE();
        for (long round = 0; round < rounds; round++) {
            spin_us(load);
            if (round < rounds - 1)
                turn_wait(&turn, me, (me + 1) % threads);
        }
        STORE(turn, (me + 1) % threads);
    } else if (is("queuelock")) {
        struct waiter waiter;
        for (long round = 0; round < rounds; round++) {
            lock_by_queue(&waiter);
            spin_us(load);
            unlock_queue(&waiter);
        }
    } else
        for (long round = 0; round < rounds; round++) {
            if (is("lock") || is("ticketlock") || is("exchange")) {
                if (is("lock"))
                    lock_by_test(&lock);
                else if (is("exchange"))
                    lock_by_exchange(&lock);
                else
                    lock_by_ticket(&lock);
                spin_us(load);
                STORE(lock.taken, 0);
                __atomic_add_fetch(&lock.serving, 1, __ATOMIC_RELEASE);
                continue;
            }
            spin_us(round % threads == me ? 2 * load : load);
            meet();
        }
    if (me == 1)
        stop = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    if (text_option(argc, argv, "how"))
        how = text_option(argc, argv, "how");
    threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 100);
    load = option(argc, argv, "load", 1000);
    stuck = option(argc, argv, "stuck", 0);
    barrier.needed = barrier.count = threads;
    sleep_us(option(argc, argv, "late", 0) * 1000);
    // Never so; these are for whoever reads the code.
    if (threads < 0) {
        struct item item = {&item, 0};
        chase(&item, count_until());
        delay(&rounds);
        digest(mix_until(rounds, (uint64_t)rounds));
        store_until();
        add_by_ticket(&lock);
        lock_by_compare(&lock);
    }
    pthread_t others[threads];
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, work, (void *)i));
    work(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    return 0;
}
