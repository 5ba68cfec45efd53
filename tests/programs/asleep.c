// A thread that waits for a lock, sleeps for a time, and says for which shares of its life it did.
//
// asleep [ms=N]
//
// Another thread holds the lock most of the time, asleep. There is no barrier. Work is measured by
// the program itself, so that it is true on a busy machine.
#include "common.h"
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_over;

__attribute__((noinline)) static void hold(void)
{
    pthread_mutex_lock(&mutex);
    usleep(6000); // SITE held
    pthread_mutex_unlock(&mutex);
}

__attribute__((noinline)) static void need(void)
{
    pthread_mutex_lock(&mutex); // SITE need
    pthread_mutex_unlock(&mutex);
}

__attribute__((noinline)) static void rest(void)
{
    usleep(3000); // SITE rest
    __asm__ volatile("");
}

static void *holder(void *unused)
{
    pthread_setname_np(pthread_self(), "holder");
    while (!atomic_load(&is_over)) {
        hold();
        usleep(1000);
    }
    return unused;
}

static void *waiter(void *unused)
{
    pthread_setname_np(pthread_self(), "waiter");
    uint64_t begun = now_ns(), waited = 0, rested = 0;
    while (!atomic_load(&is_over)) {
        uint64_t from = now_ns();
        need();
        uint64_t then = now_ns();
        rest();
        waited += then - from;
        rested += now_ns() - then;
    }
    uint64_t all = now_ns() - begun;
    printf("waited %.1f rested %.1f\n", 100.0 * waited / all, 100.0 * rested / all);
    return unused;
}

int main(int count, char **arguments)
{
    long ms = 2500;
    if (count > 1)
        sscanf(arguments[1], "ms=%ld", &ms);
    pthread_t one, two;
    must(pthread_create(&one, NULL, holder, NULL));
    must(pthread_create(&two, NULL, waiter, NULL));
    usleep(ms * 1000);
    atomic_store(&is_over, 1);
    must(pthread_join(one, NULL));
    must(pthread_join(two, NULL));
    return 0;
}
