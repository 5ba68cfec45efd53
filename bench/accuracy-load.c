// Two threads that use a given share of every period, and note by their own
// CPU clocks how much it was. Thread 0 sleeps until the period is over; thread
// 1 waits for it at the barrier.
//
// accuracy-load [load=50]         per cent of the period
//               [period=5000]     microseconds
//               [rounds=50]
//               log=FILE          thread, tid, round, arrival, departure, and
//                                 CPU time at both; ns. Before them a line
//                                 "start", thread, time of its creation
#include "../tests/programs/common.h"

enum { THREADS = 2 };
struct moment {
    uint64_t time, cpu;
};
struct entry {
    struct moment arrival, departure;
};

static long load, period, rounds;
static pthread_barrier_t barrier;
static struct entry *entries[THREADS];
static uint64_t starts[THREADS];
static int tids[THREADS];

static void sleep_until(uint64_t end)
{
    struct timespec t = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

// Reading a CPU clock is slow: it is not to lie between the time and the barrier.
static void meet(struct entry *entry)
{
    entry->arrival.cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    entry->arrival.time = now_ns();
    pthread_barrier_wait(&barrier);
    entry->departure.time = now_ns();
    entry->departure.cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void *work(void *argument)
{
    long me = (long)argument;
    tids[me] = tid();
    for (long round = 0; round < rounds; round++) {
        uint64_t end = now_ns() + (uint64_t)period * 1000;
        spin_us(period * load / 100);
        if (me == 0)
            sleep_until(end);
        meet(&entries[me][round]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    load = option(argc, argv, "load", 50);
    period = option(argc, argv, "period", 5000);
    rounds = option(argc, argv, "rounds", 50);
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    pthread_t handles[THREADS];
    for (long i = 0; i < THREADS; i++) {
        size_t size = (size_t)rounds * sizeof *entries[i];
        entries[i] = malloc(size);
        // All pages in place: no page fault in a measured interval.
        memset(entries[i], 1, size);
    }
    // A new thread may have to wait for a CPU: its time begins before.
    for (long i = 0; i < THREADS; i++) {
        starts[i] = now_ns();
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    }
    for (long i = 0; i < THREADS; i++)
        must(pthread_join(handles[i], NULL));

    const char *path = text_option(argc, argv, "log");
    FILE *log = path ? fopen(path, "w") : NULL;
    if (!log)
        return 9;
    for (long i = 0; i < THREADS; i++)
        fprintf(log, "start %ld %llu\n", i, (unsigned long long)starts[i]);
    for (long i = 0; i < THREADS; i++)
        for (long round = 0; round < rounds; round++) {
            struct entry *entry = &entries[i][round];
            fprintf(log, "%ld %d %ld %llu %llu %llu %llu\n", i, tids[i], round,
                    (unsigned long long)entry->arrival.time,
                    (unsigned long long)entry->departure.time,
                    (unsigned long long)entry->arrival.cpu,
                    (unsigned long long)entry->departure.cpu);
        }
    return fclose(log) == 0 ? 0 : 9;
}
