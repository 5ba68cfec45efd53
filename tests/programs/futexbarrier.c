// A barrier of one's own, made of atomics and a futex: a counter, and a word that
// tells the rounds apart.
//
// futexbarrier [how=call|inline|wrapper|wrappers]  by the C library's `syscall`, by the
//                                 instruction itself, by one function that makes all
//                                 system calls of futexes, or by two that call it
//              [threads=4] [rounds=100]
//              [load=US]  each thread works so long before it comes, by its turn
//                         one of them twice as long
//              [slow=N]   always thread N then, from 0
//              [late=MS]  before the first round
//              [all=1]    that one comes when all others sleep at the barrier
//
// Writes how often it has waited and woken: "waits N wakes M".
#include "common.h"
#include <linux/futex.h>
#include <sched.h>

struct barrier {
    uint32_t come, round, needed;
};

static struct barrier barrier;
static long threads, rounds, load, slow, all;
static uint64_t waits, wakes;

// Of each thread its number, and how many rounds it has begun to come to.
static pid_t ids[64];
static long came[64];

__attribute__((always_inline)) static inline long call(uint32_t *word, long op, long value)
{
    long result;
    register long timeout __asm__("r10") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_futex), "D"(word), "S"(op), "d"(value), "r"(timeout)
                     : "rcx", "r11", "memory");
    return result;
}

static int comes_last(struct barrier *b)
{
    return __atomic_add_fetch(&b->come, 1, __ATOMIC_ACQ_REL) == b->needed;
}

static void open_it(struct barrier *b)
{
    __atomic_store_n(&b->come, 0, __ATOMIC_RELAXED);
    __atomic_add_fetch(&b->round, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&wakes, 1, __ATOMIC_RELAXED);
}

static int is_closed(struct barrier *b, uint32_t round)
{
    if (__atomic_load_n(&b->round, __ATOMIC_ACQUIRE) != round)
        return 0;
    __atomic_add_fetch(&waits, 1, __ATOMIC_RELAXED);
    return 1;
}

__attribute__((noipa)) static void wait_by_call(struct barrier *b)
{
    uint32_t round = __atomic_load_n(&b->round, __ATOMIC_ACQUIRE);
    if (comes_last(b)) {
        open_it(b);
        syscall(SYS_futex, &b->round, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL); // SITE call wake
        return;
    }
    while (is_closed(b, round))
        syscall(SYS_futex, &b->round, FUTEX_WAIT_PRIVATE, round, NULL); // SITE call wait
}

__attribute__((noipa)) static void wait_inline(struct barrier *b)
{
    uint32_t round = __atomic_load_n(&b->round, __ATOMIC_ACQUIRE);
    if (comes_last(b)) {
        open_it(b);
        call(&b->round, FUTEX_WAKE_PRIVATE, 0x7fffffff); // SITE inline wake
        return;
    }
    while (is_closed(b, round))
        call(&b->round, FUTEX_WAIT_PRIVATE, round); // SITE inline wait
}

__attribute__((noipa)) static long futex(uint32_t *word, int what, uint32_t value)
{
    long result = syscall(SYS_futex, word, what, value, NULL);
    __asm__ volatile("" : "+r"(result)); // It is called, and no jump in the place of a call.
    return result;
}

// Another caller, as such functions have.
__attribute__((noipa)) static void finish(struct barrier *b)
{
    futex(&b->come, FUTEX_WAKE_PRIVATE, 1);
}

__attribute__((noipa)) static void wait_by_wrapper(struct barrier *b)
{
    uint32_t round = __atomic_load_n(&b->round, __ATOMIC_ACQUIRE);
    if (comes_last(b)) {
        open_it(b);
        futex(&b->round, FUTEX_WAKE_PRIVATE, 0x7fffffff); // SITE wrapper wake
        __asm__ volatile("");
        return;
    }
    while (is_closed(b, round))
        futex(&b->round, FUTEX_WAIT_PRIVATE, round); // SITE wrapper wait
}

__attribute__((noipa)) static void futex_wake(uint32_t *word)
{
    futex(word, FUTEX_WAKE_PRIVATE, 0x7fffffff);
    __asm__ volatile("");
}

__attribute__((noipa)) static void futex_wait(uint32_t *word, uint32_t value)
{
    futex(word, FUTEX_WAIT_PRIVATE, value);
    __asm__ volatile("");
}

__attribute__((noipa)) static void wait_by_wrappers(struct barrier *b)
{
    uint32_t round = __atomic_load_n(&b->round, __ATOMIC_ACQUIRE);
    if (comes_last(b)) {
        open_it(b);
        futex_wake(&b->round);
        return;
    }
    while (is_closed(b, round))
        futex_wait(&b->round, round);
}

static void (*meet)(struct barrier *) = wait_by_call;

static int is_asleep(pid_t id)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    return strstr(text, ") S ") != NULL;
}

// Until all others sleep, which they only do at the barrier.
static void let_others_sleep(long me, long round)
{
    for (long i = 0; i < threads; i++)
        while (i != me && !(__atomic_load_n(&came[i], __ATOMIC_ACQUIRE) > round && is_asleep(ids[i])))
            sched_yield();
}

static void *work(void *argument)
{
    long me = (long)argument;
    // Another system call by the function that may make those of the barrier.
    ids[me] = (pid_t)syscall(SYS_gettid);
    for (long round = 0; round < rounds; round++) {
        int is_last = (slow < 0 ? round % threads : slow) == me;
        spin_us(is_last ? 2 * load : load);
        if (all && is_last)
            let_others_sleep(me, round);
        __atomic_store_n(&came[me], round + 1, __ATOMIC_RELEASE);
        meet(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = text_option(argc, argv, "how");
    if (how && strcmp(how, "inline") == 0)
        meet = wait_inline;
    else if (how && strcmp(how, "wrapper") == 0)
        meet = wait_by_wrapper;
    else if (how && strcmp(how, "wrappers") == 0)
        meet = wait_by_wrappers;
    threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 100);
    load = option(argc, argv, "load", 1000);
    slow = option(argc, argv, "slow", -1);
    all = option(argc, argv, "all", 0);
    barrier.needed = (uint32_t)threads;
    sleep_us(option(argc, argv, "late", 0) * 1000);
    pthread_t others[64];
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, work, (void *)i));
    work(0);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    finish(&barrier);
    printf("waits %llu wakes %llu\n", (unsigned long long)waits, (unsigned long long)wakes);
    return 0;
}
