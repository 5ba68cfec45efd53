// Threads that meet at a barrier, compute with vectors, get signals and fork children that meet
// likewise; each checks its own results. At last the first thread prints its code, or, if a tool
// traces it for longer than `settle` ms, "watched".
//
// selfcheck [threads=3] [rounds=12] [forks=2] [gap=US] [hold=US] [settle=MS]
#include <sys/time.h>
#include <sys/wait.h>

#include "common.h"

#define WIDTH 64

static long threads, rounds, gap;
static pthread_barrier_t barrier;
static volatile sig_atomic_t alarms;
static int wrong;

static void count(int number)
{
    (void)number;
    alarms++;
}

// Sums that take all registers and are known.
__attribute__((noinline)) static double sum(double *values, long seed)
{
    double total = 0;
    for (int i = 0; i < WIDTH; i++)
        values[i] = (double)(seed + i);
    for (int turn = 0; turn < 50; turn++)
        for (int i = 0; i < WIDTH; i++)
            total += values[i] * 0.5;
    return total;
}

static double expected(long seed)
{
    return 25.0 * ((double)WIDTH * (double)seed + WIDTH * (WIDTH - 1) / 2.0);
}

static void *work(void *argument)
{
    long me = (long)argument;
    double values[WIDTH];
    for (long round = 0; round < rounds; round++) {
        sleep_us(gap);
        if (sum(values, me + round) != expected(me + round))
            __atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
        pthread_barrier_wait(&barrier); // SITE selfcheck
        if (values[WIDTH - 1] != (double)(me + round + WIDTH - 1))
            __atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void team(long size)
{
    pthread_t handles[64];
    must(pthread_barrier_init(&barrier, NULL, (unsigned)size));
    for (long i = 1; i < size; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    work(NULL);
    for (long i = 1; i < size; i++)
        must(pthread_join(handles[i], NULL));
}

// Whether a tool traces the first thread.
static int is_watched(void)
{
    char line[256];
    int tracer = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && tracer == 0 && fgets(line, sizeof line, status) != NULL)
        sscanf(line, "TracerPid: %d", &tracer);
    if (status != NULL)
        fclose(status);
    return tracer != 0;
}

int main(int argc, char **argv)
{
    threads = option(argc, argv, "threads", 3);
    rounds = option(argc, argv, "rounds", 12);
    gap = option(argc, argv, "gap", 0);
    signal(SIGALRM, count);
    struct itimerval every = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &every, NULL);
    printf("ready\n");
    fflush(stdout);
    sleep_us(option(argc, argv, "hold", 0));
    team(threads);
    for (long i = 0; i < option(argc, argv, "forks", 2); i++) {
        pid_t child = fork();
        if (child == 0) {
            team(2);
            _exit(wrong ? 8 : 3);
        }
        int status = 0;
        while (waitpid(child, &status, 0) != child) {
        }
        if (status != 3 << 8) {
            wrong = 1;
            printf("child %x\n", (unsigned)status);
        }
    }
    for (long tries = 0; alarms == 0 && tries < 1000; tries++)
        sleep_us(1000);
    // Nothing happens to the process while it waits for the tool to go.
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    long settle = option(argc, argv, "settle", 0);
    for (long tries = 0; is_watched() && tries < settle; tries++)
        sleep_us(1000);
    if (is_watched())
        printf("watched\n");
    else
        print_code();
    printf("%s\n", wrong || alarms == 0 ? "wrong" : "right");
    return 0;
}
