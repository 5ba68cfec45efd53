// Threads with exactly one fault, for sbt to say which.
//
// verdicts fault=NAME [threads=N] [rounds=N]
//
//   healthy   all work for as long, as many as have a CPU each
//   asleep-alike  all sleep for as long
//   serial    thread 1 works, the others wait for it
//   static    the last thread has three times as much work as the others
//   dynamic   so has another one each time
//   turns     so have the first and the last in turn
//   cpu       more threads than CPUs (threads=), all with as much work
//   spin      likewise, and they spin in their barriers (--barrier spin_wait)
//   stolen    a thread that meets nobody takes the CPU of thread 1
//   asleep    thread 1 reads from a pipe, which is slow to be filled
//   lock      each has work to do with the same lock held
//   short     phases of a microsecond or two
//   start     thread 0 has work to do before all begin
//   end       thread 0 has work to do when all others have ended
//
// Work is measured in CPU time, so that it stays the same on a busy machine.
#include "common.h"
#include <sched.h>
#include <stdatomic.h>

static long threads, rounds;
static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static atomic_long round_of_all, came;
static atomic_int is_over;

static void none(long me)
{
    (void)me;
}

static void even(long me, long round)
{
    (void)me, (void)round;
    spin_us(10000);
}

static void nap(long me, long round)
{
    (void)me, (void)round;
    sleep_us(10000);
}

static void serial(long me, long round)
{
    (void)round;
    spin_us(me == 1 ? 6000 : 50);
}

static void unequal(long me, long round)
{
    (void)round;
    spin_us(me == threads - 1 ? 6000 : 2000);
}

static void dynamic(long me, long round)
{
    // As good as random: the upper bits of a multiple (Knuth).
    uint32_t any = (uint32_t)round * 2654435761u >> 8;
    spin_us(me == (any ^ any >> 11) % threads ? 6000 : 2000);
}

static void turns(long me, long round)
{
    spin_us(me == round % 2 * (threads - 1) ? 4000 : 1000);
}

static void equal(long me, long round)
{
    (void)me, (void)round;
    spin_us(3000);
}

static void asleep(long me, long round)
{
    (void)round;
    char byte;
    if (me == 1 && read(ends[0], &byte, 1) != 1)
        abort();
    if (me != 1)
        spin_us(500);
}

static void *fill(void *argument)
{
    for (long round = 0; round < rounds; round++) {
        // From when all have begun to wait, so that it is slow every time.
        while (atomic_load(&round_of_all) < round)
            sleep_us(100);
        sleep_us(6000);
        if (write(ends[1], "x", 1) != 1)
            abort();
    }
    return argument;
}

__attribute__((noipa)) static void take(void)
{
    pthread_mutex_lock(&mutex); // SITE lock
    __asm__ volatile("");       // else the call is a jump
}

static void lock(long me, long round)
{
    (void)me, (void)round;
    take();
    sleep_us(3000);
    pthread_mutex_unlock(&mutex);
}

static void brief(long me, long round)
{
    (void)me, (void)round;
    for (volatile int i = 0; i < 500; i++) {
    }
}

static void prepare(long me)
{
    if (me == 0)
        spin_us(300000);
}

static void *burn(void *argument)
{
    // Stronger than the others, on the CPU of thread 1.
    struct sched_param high = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &high) != 0)
        abort();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(1, &one);
    must(pthread_setaffinity_np(pthread_self(), sizeof one, &one));
    for (long seen = 0; !is_over;) {
        while (atomic_load(&round_of_all) == seen && !is_over)
            sleep_us(50);
        seen = atomic_load(&round_of_all);
        spin_us(6000);
    }
    return argument;
}

static void bound(long me)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((int)me, &one);
    must(pthread_setaffinity_np(pthread_self(), sizeof one, &one));
}

static void *nothing(void *argument)
{
    return argument;
}

static const struct fault {
    const char *name;
    long threads, rounds;
    void (*before)(long me);
    void (*work)(long me, long round);
    void *(*beside)(void *);
} faults[] = {
    {"healthy", 2, 60, none, even, nothing},
    {"asleep-alike", 4, 60, none, nap, nothing},
    {"serial", 2, 60, none, serial, nothing},
    {"static", 2, 60, none, unequal, nothing},
    {"dynamic", 2, 60, none, dynamic, nothing},
    {"turns", 2, 60, none, turns, nothing},
    {"cpu", 6, 60, none, equal, nothing},
    {"spin", 6, 60, none, equal, nothing},
    {"stolen", 2, 60, bound, equal, burn},
    {"asleep", 2, 60, none, asleep, fill},
    {"lock", 3, 60, none, lock, nothing},
    {"short", 2, 20000, none, brief, nothing},
    {"start", 4, 60, prepare, nap, nothing},
    {"end", 4, 60, none, nap, nothing},
};
static const struct fault *fault;
static int spins;

// A barrier that only spins.
__attribute__((noipa)) void spin_wait(void *where)
{
    (void)where;
    long now = atomic_load(&round_of_all);
    if (atomic_fetch_add(&came, 1) + 1 == threads) {
        atomic_store(&came, 0);
        atomic_store(&round_of_all, now + 1);
    } else {
        while (atomic_load(&round_of_all) == now) {
        }
    }
}

static void meet(void)
{
    if (spins) {
        spin_wait(&came);
    } else if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) { // SITE meet
        atomic_fetch_add(&round_of_all, 1);
    }
}

static void *run(void *argument)
{
    long me = (long)argument;
    fault->before(me);
    meet();
    for (long round = 0; round < rounds; round++) {
        fault->work(me, round);
        meet();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *name = text_option(argc, argv, "fault");
    for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (name && strcmp(name, faults[i].name) == 0)
            fault = &faults[i];
    if (!fault) {
        fprintf(stderr, "verdicts fault=NAME: see the source for the names\n");
        return 2;
    }
    spins = strcmp(fault->name, "spin") == 0;
    threads = option(argc, argv, "threads", fault->threads);
    rounds = option(argc, argv, "rounds", fault->rounds);
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    if (pipe(ends) != 0)
        return 1;
    pthread_t beside, *others = calloc((size_t)threads, sizeof *others);
    must(pthread_create(&beside, NULL, fault->beside, NULL));
    for (long i = 1; i < threads; i++)
        must(pthread_create(&others[i], NULL, run, (void *)i));
    run(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(others[i], NULL));
    if (strcmp(fault->name, "end") == 0)
        spin_us(400000);
    is_over = 1;
    must(pthread_join(beside, NULL));
    return 0;
}
