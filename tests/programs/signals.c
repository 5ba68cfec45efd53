// Signals of all kinds between barriers: alarms by a timer that interrupts calls, and queued
// ones with values, of which none may be lost, doubled or changed.
//
// signals [rounds=100] [queued=300]
#include "common.h"
#include <stdatomic.h>
#include <sys/time.h>

#define THREADS 3
static long rounds, all;
static pthread_barrier_t barrier;
static atomic_long alarms, queued, sum, wrong;

static void on_alarm(int unused)
{
    (void)unused;
    alarms++;
}

static void on_queued(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    // What was pending is blocked here, and nothing else is but what was asked for.
    sigset_t mask;
    must(pthread_sigmask(SIG_BLOCK, NULL, &mask));
    wrong += info->si_code != SI_QUEUE || info->si_pid != getpid() || !sigismember(&mask, number)
             || !sigismember(&mask, SIGUSR2) || sigismember(&mask, SIGUSR1);
    queued++;
    sum += info->si_value.sival_int;
}

static void *work(void *unused)
{
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(500);
        pthread_barrier_wait(&barrier); // SITE among signals
    }
    return unused;
}

static void *send(void *unused)
{
    for (int number = 1; number <= all; number++) {
        while (sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = number}) != 0)
            sleep_us(100);
        if (number % 10 == 0)
            sleep_us(1000);
    }
    return unused;
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 100);
    all = option(argc, argv, "queued", 300);
    struct sigaction action = {.sa_handler = on_alarm};
    must(sigaction(SIGALRM, &action, NULL));
    action = (struct sigaction){.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_RESTART};
    must(sigaddset(&action.sa_mask, SIGUSR2));
    must(sigaction(SIGRTMIN, &action, NULL));
    struct itimerval every = {{0, 1700}, {0, 1700}};
    must(setitimer(ITIMER_REAL, &every, NULL));
    must(pthread_barrier_init(&barrier, NULL, THREADS));
    pthread_t handles[THREADS + 1];
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    must(pthread_create(&handles[THREADS], NULL, send, NULL));
    for (int i = 0; i <= THREADS; i++)
        must(pthread_join(handles[i], NULL));
    for (int wait = 0; wait < 2000 && queued < all; wait++)
        sleep_us(1000);
    sigset_t mask;
    must(pthread_sigmask(SIG_BLOCK, NULL, &mask));
    wrong += sigismember(&mask, SIGRTMIN) || sigismember(&mask, SIGTRAP);
    printf("queued %ld, sum %s, alarms %s, wrong %ld\n", atomic_load(&queued),
           sum == all * (all + 1) / 2 ? "right" : "wrong", alarms > 10 ? "came" : "did not come",
           atomic_load(&wrong));
    return 0;
}
