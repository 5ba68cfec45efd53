// Processes that come one after the other with the same number, and threads likewise, as if the
// numbers had come round: whoever is root tells the kernel which one it gave last.
//
// numbers [processes=4] [waves=3] [rounds=20]
#include "common.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { OTHER = 9, TRIES = 10000 };

static long waves, rounds;
static pthread_barrier_t barrier;
static int wanted;

static void next_is(int number)
{
    int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    if (file < 0 || dprintf(file, "%d", number - 1) < 0) {
        perror("ns_last_pid");
        exit(3);
    }
    close(file);
}

static void meet(void)
{
    for (volatile long round = 0; round < rounds; round++)
        pthread_barrier_wait(&barrier); // SITE number
}

static void *work(void *began)
{
    if (wanted != 0 && tid() != wanted)
        return NULL;
    atomic_store((atomic_int *)began, tid());
    pthread_barrier_wait(&barrier); // SITE begin
    meet();
    return NULL;
}

// Others may be faster to get the number.
static void team(void)
{
    must(pthread_barrier_init(&barrier, NULL, 2));
    for (long wave = 0, tries = 0; wave < waves; tries++) {
        if (tries == TRIES)
            _exit(1);
        atomic_int began = 0;
        pthread_t handle;
        if (wanted != 0)
            next_is(wanted);
        must(pthread_create(&handle, NULL, work, &began));
        // It is known only by itself which it is.
        while (atomic_load(&began) == 0 && pthread_tryjoin_np(handle, NULL) != 0)
            sleep_us(20);
        if (atomic_load(&began) == 0)
            continue;
        wanted = atomic_load(&began);
        pthread_barrier_wait(&barrier); // SITE begin
        meet();
        must(pthread_join(handle, NULL));
        wave++;
    }
}

int main(int argc, char **argv)
{
    long processes = option(argc, argv, "processes", 4);
    waves = option(argc, argv, "waves", 3);
    rounds = option(argc, argv, "rounds", 20);
    pid_t same = 0;
    long process = 0;
    for (long tries = 0; process < processes && tries < TRIES; tries++) {
        if (same != 0)
            next_is(same);
        pid_t child = fork();
        if (child == 0) {
            if (same != 0 && getpid() != same)
                _exit(OTHER);
            team();
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == OTHER)
            continue;
        if (status != 0)
            return 1;
        same = child;
        process++;
    }
    printf("number %d\n", same);
    return process < processes;
}
