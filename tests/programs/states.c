// Threads that are kept from their work by one thing, and tell for how long.
//
// states keep=NAME [threads=N] [rounds=N] [us=N] [file=PATH] [late=MS]
//
//   taker    no threads: a process that uses CPU 1 until it is killed
//   taken    thread 1 works on CPU 1, which such a process wants too
//   sleep    thread 1 sleeps
//   pipe     thread 1 reads from a pipe that is slow to be filled
//   poll     thread 1 polls such a pipe
//   sync     thread 1 writes to a file and waits until it is on the disk
//   direct   thread 1 reads a file past the page cache (O_DIRECT)
//   fault    thread 1 touches a file that is mapped and not in the page cache
//   lock     thread 1 wants a mutex that another thread holds
//   child    thread 1 waits for a child process
//   crowd    more threads than CPUs (threads=), each with as much work
//
// late=MS: threads are born after so long, so that one may attach before.
// With us= for how long each time. A line `ready` before threads are born, and one at the
// end, times in ns:
//   kept SUM of what thread 1 measured around that one thing, over all rounds
//   cpu SUM of the CPU time of all threads between their barriers
//   wall SUM of the time from the first barrier to the last
#include "common.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define PAGES 64

static long threads, rounds, us;
static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2], file = -1;
static char *map;
static atomic_long round_now = -1, cpu_ns;
static uint64_t kept_ns, first_ns, last_ns;

static void bind_to(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        abort();
}

// Spins on CPU 1 for ever: what thread 1 loses its CPU to. Another process.
static _Noreturn void be_taker(void)
{
    prctl(PR_SET_NAME, "taker");
    bind_to(1);
    // More of it than whatever else may want that CPU.
    if (setpriority(PRIO_PROCESS, 0, -5) != 0)
        abort();
    for (;;) {
    }
}

static void nothing(void)
{
}

static void taken(void)
{
    spin_us(us);
}

static void sleeps(void)
{
    sleep_us(us);
}

static void reads(void)
{
    char byte;
    if (read(ends[0], &byte, 1) != 1)
        abort();
}

static void polls(void)
{
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    if (poll(&one, 1, -1) != 1)
        abort();
}

static char block[1 << 20] __attribute__((aligned(4096)));

static void syncs(void)
{
    block[0]++;
    if (pwrite(file, block, sizeof block, 0) != (ssize_t)sizeof block || fsync(file) != 0)
        abort();
}

static void direct(void)
{
    if (pread(file, block, sizeof block, 0) != (ssize_t)sizeof block)
        abort();
}

static void faults(void)
{
    for (long page = 0; page < PAGES; page++)
        (void)*(volatile char *)(map + page * 4096 * 4);
}

static void locks(void)
{
    must(pthread_mutex_lock(&mutex));
    must(pthread_mutex_unlock(&mutex));
}

static void waits(void)
{
    pid_t child = fork();
    if (child == 0) {
        sleep_us(us);
        _exit(0);
    }
    if (waitpid(child, NULL, 0) != child)
        abort();
}

// Before what is measured, likewise thread 1.
static void drop(void)
{
    // What is mapped does not leave the page cache.
    if (munmap(map, sizeof block) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
        abort();
    map = mmap(NULL, sizeof block, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED || madvise(map, sizeof block, MADV_RANDOM) != 0)
        abort();
}

static void drain(void)
{
    char byte;
    // Of the round before.
    if (round_now > 0 && read(ends[0], &byte, 1) != 1)
        abort();
}

static void await_holder(void);

static const struct {
    const char *name;
    long threads;
    void (*before)(void);
    void (*kept)(void);
} all[] = {
    {"taken", 2, nothing, taken},   {"sleep", 2, nothing, sleeps}, {"pipe", 2, nothing, reads},
    {"poll", 2, drain, polls},      {"sync", 2, nothing, syncs},   {"direct", 2, nothing, direct},
    {"fault", 2, drop, faults},     {"lock", 2, await_holder, locks},
    {"child", 2, nothing, waits},   {"crowd", 6, nothing, nothing},
};
static unsigned which;
static atomic_long held = -1;

static int is(const char *name)
{
    return strcmp(all[which].name, name) == 0;
}

static void await_holder(void)
{
    while (atomic_load(&held) < atomic_load(&round_now)) {
    }
}

// Holds the mutex, or fills the pipe, a while after each round has begun.
static void *beside(void *argument)
{
    for (long round = 0; round < rounds; round++) {
        while (atomic_load(&round_now) < round)
            sleep_us(50);
        if (is("lock")) {
            must(pthread_mutex_lock(&mutex));
            atomic_store(&held, round);
        }
        sleep_us(us);
        if (is("lock"))
            must(pthread_mutex_unlock(&mutex));
        else if (write(ends[1], "x", 1) != 1)
            abort();
    }
    return argument;
}

static void *run(void *argument)
{
    long me = (long)argument;
    if (is("taken"))
        bind_to((int)me);
    for (long round = 0; round <= rounds; round++) {
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
            atomic_store(&round_now, round);
            if (round == 0)
                first_ns = now_ns();
            last_ns = now_ns();
        }
        if (round == rounds)
            break;
        uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        if (is("crowd")) {
            spin_us(us);
        } else if (me == 1) {
            while (atomic_load(&round_now) < round) {
            }
            all[which].before();
            uint64_t from = now_ns();
            all[which].kept();
            kept_ns += now_ns() - from;
        } else {
            spin_us(200);
        }
        atomic_fetch_add(&cpu_ns, (long)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *name = text_option(argc, argv, "keep");
    const char *path = text_option(argc, argv, "file");
    if (name && strcmp(name, "taker") == 0)
        be_taker();
    for (which = 0; which < sizeof all / sizeof all[0]; which++)
        if (name && strcmp(name, all[which].name) == 0)
            break;
    if (which == sizeof all / sizeof all[0]) {
        fprintf(stderr, "states keep=NAME: see the source for the names\n");
        return 2;
    }
    threads = option(argc, argv, "threads", all[which].threads);
    rounds = option(argc, argv, "rounds", 40);
    us = option(argc, argv, "us", 5000);
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    if (path) {
        file = open(path, O_RDWR | O_CREAT | (is("direct") ? O_DIRECT : 0), 0600);
        if (file < 0 || pwrite(file, block, sizeof block, 0) != (ssize_t)sizeof block ||
            fsync(file) != 0)
            return 3;
        map = mmap(NULL, sizeof block, PROT_READ, MAP_SHARED, file, 0);
    }
    if (pipe(ends) != 0)
        return 1;
    printf("ready\n");
    fflush(stdout);
    sleep_us(1000 * option(argc, argv, "late", 0));
    pthread_t other, *others = calloc((size_t)threads, sizeof *others);
    int has_other = is("pipe") || is("poll") || is("lock");
    if (has_other)
        must(pthread_create(&other, NULL, beside, NULL));
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, run, (void *)i));
    run(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    if (has_other)
        must(pthread_join(other, NULL));
    printf("kept %llu cpu %ld wall %llu\n", (unsigned long long)kept_ns, (long)cpu_ns,
           (unsigned long long)(last_ns - first_ns));
    return 0;
}
