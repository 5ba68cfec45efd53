// Two threads with phases of a fixed amount of arithmetic, so that whatever
// slows them down shows in the length of the phases.
//
// accuracy-phases [work=60000]    steps of arithmetic a phase and thread
//                 [rounds=1000]
//                 log=FILE        thread, tid, round, arrival, departure; ns
#include "../tests/programs/common.h"

enum { THREADS = 2 };
struct entry {
    uint64_t arrival, departure;
};

static long steps, rounds;
static pthread_barrier_t barrier;
static struct entry *entries[THREADS];
static int tids[THREADS];
static volatile uint64_t sinks[THREADS * 16];

static void *work(void *argument)
{
    long me = (long)argument;
    tids[me] = tid();
    for (long round = 0; round < rounds; round++) {
        uint64_t sum = (uint64_t)me;
        for (long step = 0; step < steps; step++)
            sum = sum * 6364136223846793005u + 1442695040888963407u;
        sinks[me * 16] = sum;
        entries[me][round].arrival = now_ns();
        pthread_barrier_wait(&barrier);
        entries[me][round].departure = now_ns();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    steps = option(argc, argv, "work", 60000);
    rounds = option(argc, argv, "rounds", 1000);
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    for (long i = 0; i < THREADS; i++) {
        size_t size = (size_t)rounds * sizeof *entries[i];
        entries[i] = malloc(size);
        // All pages in place: no page fault in a measured interval.
        memset(entries[i], 1, size);
    }
    pthread_t other;
    must(pthread_create(&other, NULL, work, (void *)1));
    work((void *)0);
    must(pthread_join(other, NULL));

    const char *path = text_option(argc, argv, "log");
    FILE *log = path ? fopen(path, "w") : NULL;
    if (!log)
        return 9;
    for (long i = 0; i < THREADS; i++)
        for (long round = 0; round < rounds; round++)
            fprintf(log, "%ld %d %ld %llu %llu\n", i, tids[i], round,
                    (unsigned long long)entries[i][round].arrival,
                    (unsigned long long)entries[i][round].departure);
    return fclose(log) == 0 ? 0 : 9;
}
