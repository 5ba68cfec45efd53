// Threads that meet round after round and note by their own clock when they
// arrived at the barrier and when they left it.
//
// truth [threads=4] [rounds=100]  main is thread 0
//       [base=US] [skew=US] [turn=1]  thread i loads base + i * skew; with turn
//                                 the loads move on by one thread every round
//       [load=sleep|spin]         how; spinning is measured in CPU time
//       [spin0=US] [sleep1=US]    loads of threads 0 and 1 on top
//       [hold=US]                 sleeps before it begins
//       [until=FILE]              does not end before this file exists
//       [log=FILE]                thread, tid, round, arrival, departure; ns
//       [beginnings=1]            and when it began to load for the round
//       [ignore=SIGNAL] [status=N] [raise=SIGNAL]
#include "common.h"

static long threads, rounds, base, skew, turn, spin0, sleep1, beginnings;
static int spins;
static pthread_barrier_t barrier;
struct entry {
    uint64_t begin, arrival, departure;
};
static struct entry *entries;
static int *tids;

__attribute__((noinline)) static void meet(struct entry *entry)
{
    entry->arrival = now_ns();
    pthread_barrier_wait(&barrier); // SITE meet
    entry->departure = now_ns();
}

static void *work(void *argument)
{
    long me = (long)argument;
    tids[me] = tid();
    for (long round = 0; round < rounds; round++) {
        long load = base + skew * ((me + turn * round) % threads);
        struct entry *entry = &entries[me * rounds + round];
        if (beginnings)
            entry->begin = now_ns();
        if (spins)
            spin_us(load);
        else
            sleep_us(load);
        if (me == 0)
            spin_us(spin0);
        if (me == 1)
            sleep_us(sleep1);
        meet(entry);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 100);
    base = option(argc, argv, "base", 0);
    skew = option(argc, argv, "skew", 0);
    turn = option(argc, argv, "turn", 0);
    spin0 = option(argc, argv, "spin0", 0);
    sleep1 = option(argc, argv, "sleep1", 0);
    beginnings = option(argc, argv, "beginnings", 0);
    const char *load = text_option(argc, argv, "load");
    spins = load && strcmp(load, "spin") == 0;
    long ignored = option(argc, argv, "ignore", 0);
    if (ignored)
        signal((int)ignored, SIG_IGN);

    entries = calloc((size_t)(threads * rounds), sizeof *entries);
    tids = calloc((size_t)threads, sizeof *tids);
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    printf("ready\n");
    fflush(stdout);
    sleep_us(option(argc, argv, "hold", 0));
    for (long i = 1; i < threads; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    work(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(handles[i], NULL));

    const char *path = text_option(argc, argv, "log");
    if (path) {
        FILE *log = fopen(path, "w");
        if (!log)
            return 9;
        for (long i = 0; i < threads; i++)
            for (long round = 0; round < rounds; round++) {
                struct entry it = entries[i * rounds + round];
                fprintf(log, "%ld %d %ld %llu %llu", i, tids[i], round,
                        (unsigned long long)it.arrival, (unsigned long long)it.departure);
                if (beginnings)
                    fprintf(log, " %llu", (unsigned long long)it.begin);
                fputc('\n', log);
            }
        fclose(log);
    }
    const char *awaited = text_option(argc, argv, "until");
    for (long tries = 0; awaited && access(awaited, F_OK) != 0 && tries < 3000; tries++)
        sleep_us(10000);
    // Whoever is watched beside may have probes on for everybody, for a moment.
    const volatile unsigned char *code = (void *)(uintptr_t)&pthread_barrier_wait;
    for (long tries = 0; awaited && *code == 0xcc && tries < 200; tries++)
        sleep_us(10000);
    print_code();
    printf("done %ld\n", threads * rounds);
    fflush(stdout);
    long deadly = option(argc, argv, "raise", 0);
    if (deadly)
        raise((int)deadly);
    return (int)option(argc, argv, "status", 0);
}
