// Each thread does a known number of countable things between two barriers: touches
// pages for the first time, and sleeps. New threads come for each of some teams, so
// that some are born late.
#include "common.h"
#include <sys/mman.h>

static long pages, sleeps, rounds, threads, size;
static pthread_barrier_t meet;

struct task {
    long id;
    char *memory;
};

// One fault each: no huge pages, no reading ahead of them.
static void touch(char *memory, long count)
{
    for (long page = 0; page < count; page++)
        ((volatile char *)memory)[page * size] = 1;
}

// To be marked.
__attribute__((noinline)) void touches(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) void sleeps_now(void)
{
    __asm__ volatile("");
}

static void *work(void *argument)
{
    struct task *task = argument;
    char *memory = task->memory;
    for (volatile long round = 0; round < rounds; round++) {
        pthread_barrier_wait(&meet); // SITE begin
        touches();
        touch(memory, pages * (task->id + 1));
        memory += pages * (task->id + 1) * size;
        sleeps_now();
        for (long sleep = 0; sleep < sleeps; sleep++)
            sleep_us(100);
        pthread_barrier_wait(&meet); // SITE end
    }
    return NULL;
}

static void team(void)
{
    pthread_t handles[64];
    struct task tasks[64];
    for (long id = 0; id < threads; id++) {
        size_t bytes = (size_t)(pages * (id + 1) * rounds * size + size);
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE) != 0)
            abort();
        tasks[id] = (struct task){id, memory};
    }
    for (long id = 0; id < threads; id++)
        must(pthread_create(&handles[id], NULL, work, &tasks[id]));
    for (long id = 0; id < threads; id++)
        must(pthread_join(handles[id], NULL));
}

int main(int argc, char **argv)
{
    pages = option(argc, argv, "pages", 10);
    sleeps = option(argc, argv, "sleeps", 5);
    rounds = option(argc, argv, "rounds", 20);
    threads = option(argc, argv, "threads", 3);
    long teams = option(argc, argv, "teams", 1);
    size = sysconf(_SC_PAGESIZE);
    must(pthread_barrier_init(&meet, NULL, (unsigned)threads));
    while (teams-- > 0)
        team();
    return 0;
}
