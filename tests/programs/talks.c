// Threads that meet at two barriers, round after round, for ever; main says
// "ready" and answers each line of its input with "you said LINE".
//
// talks [threads=3] [pace=US]  sleep before each barrier; the last thread
//                              sleeps twice as long before the first
//       [name=TEXT]            that of thread 1
// Lines that mean more: "end N": exit with N; "print N": N numbered lines;
// "rest": the threads stop meeting.
// SIGUSR1: tells how many rounds there were, and how the code looks.
#include "common.h"
#include <sys/prctl.h>

static long threads, pace;
static const char *name;
static volatile long rounds;
static volatile int rest;
static pthread_barrier_t first, second;

static void *work(void *argument)
{
    long me = (long)argument;
    if (me == 1 && name)
        prctl(PR_SET_NAME, name);
    for (;;) {
        sleep_us(me == threads - 1 ? 2 * pace : pace);
        pthread_barrier_wait(&first); // SITE first
        if (me == 0)
            rounds++;
        sleep_us(pace);
        while (rest)
            sleep_us(10000);
        pthread_barrier_wait(&second); // SITE second
    }
    return NULL;
}

static void *tell(void *signals)
{
    int number;
    while (sigwait(signals, &number) == 0) {
        printf("rounds %ld\n", rounds);
        print_code();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = option(argc, argv, "threads", 3);
    pace = option(argc, argv, "pace", 2000);
    name = text_option(argc, argv, "name");
    must(pthread_barrier_init(&first, NULL, (unsigned)threads));
    must(pthread_barrier_init(&second, NULL, (unsigned)threads));
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    pthread_t handle;
    must(pthread_create(&handle, NULL, tell, &signals));
    for (long i = 0; i < threads; i++)
        must(pthread_create(&handle, NULL, work, (void *)i));
    printf("ready\n");
    fflush(stdout);
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        printf("you said %s\n", line);
        long many = 0;
        if (sscanf(line, "end %ld", &many) == 1)
            return (int)many;
        if (strcmp(line, "rest") == 0)
            rest = 1;
        sscanf(line, "print %ld", &many);
        for (long i = 1; i <= many; i++)
            printf("line %ld\n", i);
        fflush(stdout);
    }
    for (;;)
        pause();
}
