// Processes that meet at one barrier in memory they share, each of them at one of
// its own as well. With depth=2 a child's child is among them; with exec=1 each
// child is the program again; with apart=1 they map the memory each for itself, at
// addresses of their own. With gate=1 it says `ready` first, and waits for something to read.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "common.h"

static long rounds;

struct shared {
    char unused[64];
    pthread_barrier_t barrier;
};

static struct shared *map(int fd)
{
    void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

static void meet(pthread_barrier_t *barrier, long us)
{
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(us);
        pthread_barrier_wait(barrier); // SITE shared
    }
}

static void *alone(void *barrier)
{
    for (volatile long round = 0; round < rounds; round++)
        pthread_barrier_wait(barrier); // SITE own
    return NULL;
}

// Two threads of one process, at a barrier whose address is that of the others'.
static void team(void)
{
    static pthread_barrier_t barrier;
    pthread_t other;
    must(pthread_barrier_init(&barrier, NULL, 2));
    must(pthread_create(&other, NULL, alone, &barrier));
    alone(&barrier);
    must(pthread_join(other, NULL));
}

static void work(struct shared *shared, long us)
{
    meet(&shared->barrier, us);
    team();
}

int main(int argc, char **argv)
{
    rounds = option(argc, argv, "rounds", 50);
    long count = option(argc, argv, "processes", 3);
    long us = option(argc, argv, "us", 200);
    const char *name = text_option(argc, argv, "memory");
    const char *path = text_option(argc, argv, "path");
    if (name != NULL) {
        // A child that was executed.
        work(map(atoi(name)), us);
        return 0;
    }
    if (option(argc, argv, "gate", 0)) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) : memfd_create("shared", 0);
    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0)
        abort();
    struct shared *shared = map(fd);
    pthread_barrierattr_t attributes;
    must(pthread_barrierattr_init(&attributes));
    must(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    must(pthread_barrier_init(&shared->barrier, &attributes, (unsigned)count));

    int deep = option(argc, argv, "depth", 1) > 1;
    for (long i = 1; i < count; i++) {
        pid_t child = fork();
        if (child != 0)
            continue;
        // The last child leaves its place to a child of its own.
        if (deep && i == count - 1) {
            pid_t own = fork();
            if (own != 0) {
                waitpid(own, NULL, 0);
                _exit(0);
            }
        }
        if (option(argc, argv, "exec", 0)) {
            char memory[32], number[32], pace[32];
            snprintf(memory, sizeof memory, "memory=%d", fd);
            snprintf(number, sizeof number, "rounds=%ld", rounds);
            snprintf(pace, sizeof pace, "us=%ld", us);
            execl("/proc/self/exe", argv[0], memory, number, pace, (char *)NULL);
            abort();
        }
        if (option(argc, argv, "apart", 0)) {
            // Something else lies where the parent has it.
            mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            shared = map(fd);
        }
        work(shared, us);
        _exit(0);
    }
    work(shared, us);
    int failed = 0;
    for (long i = 1; i < count; i++) {
        int status = 0;
        wait(&status);
        failed += status != 0;
    }
    printf("processes %ld failed %d\n", count, failed);
    return failed;
}
