// Threads that meet round after round and note by their own clock when they
// arrived at the barrier and when they left it, and how many the barrier had
// counted before.
//
// accuracy-barriers [threads=2] [rounds=100]
//                   [base=US] [skew=US] [turn=1]  thread i loads base + i * skew;
//                                   with turn the loads move on by one thread
//                                   every round
//                   [load=sleep|spin]  how; spinning is measured in CPU time
//                   log=FILE        thread, tid, round, arrival, departure (ns),
//                                   arrivals counted just before its own
#include "../tests/programs/common.h"

struct entry {
    uint64_t arrival, departure;
    unsigned counted;
};

static long threads, rounds, base, skew, turn;
static int spins;
static pthread_barrier_t barrier;
static struct entry *entries;
static int *tids;

// How many the barrier has counted in this round. glibc's begins with a count
// of all arrivals, and what it was when the round began.
static unsigned counted(void)
{
    const unsigned *words = (const unsigned *)(const void *)&barrier;
    return __atomic_load_n(&words[0], __ATOMIC_ACQUIRE) -
           __atomic_load_n(&words[1], __ATOMIC_ACQUIRE);
}

__attribute__((noinline)) static void meet(struct entry *entry)
{
    // Before the clock: all that it shows had arrived by then.
    entry->counted = counted();
    entry->arrival = now_ns();
    pthread_barrier_wait(&barrier);
    entry->departure = now_ns();
}

static void *work(void *argument)
{
    long me = (long)argument;
    tids[me] = tid();
    for (long round = 0; round < rounds; round++) {
        long load = base + skew * ((me + turn * round) % threads);
        if (spins)
            spin_us(load);
        else
            sleep_us(load);
        meet(&entries[me * rounds + round]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = option(argc, argv, "threads", 2);
    rounds = option(argc, argv, "rounds", 100);
    base = option(argc, argv, "base", 0);
    skew = option(argc, argv, "skew", 0);
    turn = option(argc, argv, "turn", 0);
    const char *load = text_option(argc, argv, "load");
    spins = load && strcmp(load, "spin") == 0;

    size_t size = (size_t)(threads * rounds) * sizeof *entries;
    entries = malloc(size);
    // All pages in place: no page fault in a measured interval.
    memset(entries, 1, size);
    tids = calloc((size_t)threads, sizeof *tids);
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    for (long i = 1; i < threads; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    work(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(handles[i], NULL));

    const char *path = text_option(argc, argv, "log");
    FILE *log = path ? fopen(path, "w") : NULL;
    if (!log)
        return 9;
    for (long i = 0; i < threads; i++)
        for (long round = 0; round < rounds; round++) {
            struct entry *entry = &entries[i * rounds + round];
            fprintf(log, "%ld %d %ld %llu %llu %u\n", i, tids[i], round,
                    (unsigned long long)entry->arrival, (unsigned long long)entry->departure,
                    entry->counted);
        }
    return fclose(log) == 0 ? 0 : 9;
}
