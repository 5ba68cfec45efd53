// Threads that meet twice a round. In the second phase one of them touches new pages.
//
// faults [threads=4] [rounds=100] [pages=50] [who=2] [base=US]  how long each sleeps in a phase
#include "common.h"
#include <sys/mman.h>

static long rounds, pages, who, base, size;
static pthread_barrier_t barrier;

static void touch(void)
{
    size_t bytes = (size_t)(pages * size);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // One fault each: no huge pages.
    if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE) != 0)
        abort();
    for (long page = 0; page < pages; page++)
        ((volatile char *)memory)[page * size] = 1;
    munmap(memory, bytes);
}

static void *work(void *argument)
{
    long me = (long)argument;
    for (long round = 0; round < rounds; round++) {
        sleep_us(base);
        pthread_barrier_wait(&barrier); // SITE calm
        sleep_us(base);
        if (me == who)
            touch();
        pthread_barrier_wait(&barrier); // SITE faults
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 100);
    pages = option(argc, argv, "pages", 50);
    who = option(argc, argv, "who", 2);
    base = option(argc, argv, "base", 1000);
    size = sysconf(_SC_PAGESIZE);
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    pthread_t others[64];
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, work, (void *)i));
    work(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    return 0;
}
