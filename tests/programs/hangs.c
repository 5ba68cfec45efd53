// Programs that hang, one in each way.
//
// hangs CASE: says `stuck` when it is. `long` only takes its time.
#include "common.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <semaphore.h>
#include <stdatomic.h>

#define NOINLINE __attribute__((noinline))

static pthread_barrier_t barrier, other_barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condvar = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static pthread_t first;
static int ends[2];
static volatile int done, go_on;
// How many locks are held.
static atomic_int held;
static volatile unsigned long turns;

NOINLINE static void meet(pthread_barrier_t *at)
{
    pthread_barrier_wait(at); // SITE meet
    done++;
}

NOINLINE static void take(pthread_mutex_t *what)
{
    pthread_mutex_lock(what); // SITE take
    done++;
}

// Something to do until the others hold so many locks.
NOINLINE static void settle(int locks)
{
    do
        sleep_us(10000);
    while (held < locks);
}

static void *arrives(void *unused)
{
    (void)unused;
    meet(&barrier);
    return NULL;
}

static void *holds(void *unused)
{
    (void)unused;
    take(&mutex);
    held++;
    meet(&barrier);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *wants(void *unused)
{
    (void)unused;
    settle(1);
    take(&mutex);
    meet(&barrier);
    return NULL;
}

static void *returns(void *unused)
{
    (void)unused;
    settle(0);
    return NULL;
}

static void *leaves(void *unused)
{
    (void)unused;
    settle(0);
    pthread_exit(NULL);
}

static void *settles(void *unused)
{
    sleep_us(1000000000);
    return unused;
}

static void *there_then_here(void *unused)
{
    (void)unused;
    meet(&other_barrier);
    meet(&barrier);
    return NULL;
}

NOINLINE static void spin(void)
{
    while (!go_on) // SITE spin
        turns++;
}

static void *spins(void *unused)
{
    (void)unused;
    spin();
    meet(&barrier);
    return NULL;
}

NOINLINE static void grind(void)
{
    for (int i = 0; i < 1000000; i++)
        turns += (unsigned long)i;
}

NOINLINE static void polish(void)
{
    for (int i = 0; i < 1000000; i++)
        turns ^= (unsigned long)i;
}

static void *takes_long(void *unused)
{
    (void)unused;
    uint64_t end = now_ns() + 30000000000u;
    while (now_ns() < end) {
        grind();
        polish();
    }
    meet(&barrier);
    return NULL;
}

NOINLINE static void fetch(int from)
{
    char byte;
    if (read(from, &byte, 1) < 0) // SITE fetch
        abort();
    done++;
}

static void *reads(void *unused)
{
    (void)unused;
    fetch(ends[0]);
    meet(&barrier);
    return NULL;
}

static void *sleeps(void *unused)
{
    (void)unused;
    sleep_us(1000000000);
    meet(&barrier);
    return NULL;
}

NOINLINE static void await(void)
{
    pthread_mutex_lock(&mutex);
    pthread_cond_wait(&condvar, &mutex); // SITE await
    pthread_mutex_unlock(&mutex);
    done++;
}

static void *misses(void *unused)
{
    (void)unused;
    pthread_cond_broadcast(&condvar);
    await();
    meet(&barrier);
    return NULL;
}

static void *dies_with_it(void *unused)
{
    (void)unused;
    take(&mutex);
    held++;
    return NULL;
}

static void *takes_twice(void *unused)
{
    (void)unused;
    take(&mutex);
    take(&mutex);
    meet(&barrier);
    return NULL;
}

static void *one_then_other(void *unused)
{
    (void)unused;
    take(&mutex);
    held++;
    settle(2);
    take(&other_mutex);
    meet(&barrier);
    return NULL;
}

static void *other_then_one(void *unused)
{
    (void)unused;
    take(&other_mutex);
    held++;
    settle(2);
    take(&mutex);
    meet(&barrier);
    return NULL;
}

static void *writes(void *unused)
{
    (void)unused;
    must(pthread_rwlock_wrlock(&rwlock));
    held++;
    meet(&barrier);
    return NULL;
}

static void *shares(void *unused)
{
    (void)unused;
    must(pthread_rwlock_rdlock(&rwlock));
    held++;
    meet(&barrier);
    return NULL;
}

static void *wants_to_read(void *unused)
{
    (void)unused;
    settle(1);
    must(pthread_rwlock_rdlock(&rwlock)); // SITE rdlock
    meet(&barrier);
    return NULL;
}

static void *wants_to_write(void *unused)
{
    (void)unused;
    settle(1);
    must(pthread_rwlock_wrlock(&rwlock)); // SITE wrlock
    meet(&barrier);
    return NULL;
}

static void *wants_a_unit(void *unused)
{
    (void)unused;
    must(sem_wait(&semaphore)); // SITE semaphore
    meet(&barrier);
    return NULL;
}

static struct timespec in_an_hour(void)
{
    struct timespec time;
    must(clock_gettime(CLOCK_REALTIME, &time));
    time.tv_sec += 3600;
    return time;
}

static void *wants_for_a_while(void *unused)
{
    (void)unused;
    settle(1);
    struct timespec until = in_an_hour();
    must(pthread_mutex_timedlock(&mutex, &until)); // SITE timedlock
    meet(&barrier);
    return NULL;
}

static void *wants_a_unit_for_a_while(void *unused)
{
    (void)unused;
    struct timespec until = in_an_hour();
    must(sem_timedwait(&semaphore, &until)); // SITE timedwait
    meet(&barrier);
    return NULL;
}

static void *joins(void *unused)
{
    (void)unused;
    settle(0);
    must(pthread_join(first, NULL)); // SITE join
    meet(&barrier);
    return NULL;
}

static void on_signal(int unused)
{
    (void)unused;
    meet(&barrier);
    done++;
}

static void *is_interrupted(void *unused)
{
    pthread_kill(pthread_self(), SIGUSR1);
    done++;
    return unused;
}

static void lock_of(int kind, int robust, int protocol)
{
    pthread_mutexattr_t attributes;
    must(pthread_mutexattr_init(&attributes));
    must(pthread_mutexattr_settype(&attributes, kind));
    must(pthread_mutexattr_setrobust(&attributes, robust));
    must(pthread_mutexattr_setprotocol(&attributes, protocol));
    must(pthread_mutex_init(&mutex, &attributes));
}

// A barrier of a parent and a child, which does something else.
static int family(const char *name)
{
    struct {
        pthread_barrier_t barrier;
        pthread_mutex_t mutex;
    } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    pthread_barrierattr_t attributes;
    must(pthread_barrierattr_init(&attributes));
    must(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    must(pthread_barrier_init(&shared->barrier, &attributes, 2));
    pthread_mutexattr_t of_mutex;
    must(pthread_mutexattr_init(&of_mutex));
    must(pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(&shared->mutex, &of_mutex));
    pid_t child = fork();
    if (child == 0) {
        if (strcmp(name, "stopped") == 0)
            raise(SIGSTOP);
        if (strcmp(name, "killed") == 0)
            raise(SIGKILL);
        if (strcmp(name, "heir") == 0) {
            take(&shared->mutex);
            raise(SIGKILL);
        }
        meet(&shared->barrier);
        return 0;
    }
    int status;
    if (waitpid(child, &status, WUNTRACED) != child)
        abort();
    printf("stuck %d\n", child);
    fflush(stdout);
    if (strcmp(name, "heir") == 0)
        take(&shared->mutex);
    meet(&shared->barrier);
    return 0;
}

static const struct {
    const char *name;
    // What it is for the barrier to complete.
    unsigned count;
    struct {
        const char *name;
        void *(*does)(void *);
    } threads[3];
} cases[] = {
    {"lock", 2, {{"holder", holds}, {"wanter", wants}}},
    {"recursive", 2, {{"holder", holds}, {"wanter", wants}}},
    {"errorcheck", 2, {{"holder", holds}, {"wanter", wants}}},
    {"robust", 2, {{"holder", holds}, {"wanter", wants}}},
    {"inherits", 2, {{"holder", holds}, {"wanter", wants}}},
    {"return", 3, {{"early", returns}, {"one", arrives}, {"two", arrives}}},
    {"exit", 3, {{"early", leaves}, {"one", arrives}, {"two", arrives}}},
    {"count", 4, {{"one", arrives}, {"two", arrives}, {"three", arrives}}},
    {"order", 2, {{"first", arrives}, {"second", there_then_here}}},
    {"spin", 2, {{"one", arrives}, {"spinner", spins}}},
    {"long", 2, {{"one", arrives}, {"worker", takes_long}}},
    {"read", 2, {{"one", arrives}, {"reader", reads}}},
    {"sleep", 2, {{"one", arrives}, {"sleeper", sleeps}}},
    {"missed", 2, {{"one", arrives}, {"waiter", misses}}},
    {"orphan", 2, {{"early", dies_with_it}, {"wanter", wants}, {"one", arrives}}},
    {"twice", 2, {{"one", arrives}, {"wanter", takes_twice}}},
    {"cycle", 3, {{"one", one_then_other}, {"two", other_then_one}, {"three", arrives}}},
    {"rdlock", 2, {{"holder", writes}, {"wanter", wants_to_read}}},
    {"wrlock", 2, {{"holder", shares}, {"wanter", wants_to_write}}},
    {"writers", 2, {{"holder", writes}, {"wanter", wants_to_write}}},
    {"semaphore", 2, {{"one", arrives}, {"wanter", wants_a_unit}}},
    {"handler", 2, {{"interrupted", is_interrupted}}},
    {"join", 2, {{"one", arrives}, {"joiner", joins}}},
    {"again", 3, {{"interrupted", arrives}, {"other", settles}}},
    {"shared", 2, {{"one", arrives}, {"wanter", wants_a_unit}}},
    {"limited",
     3,
     {{"holder", holds}, {"wanter", wants_for_a_while}, {"third", wants_a_unit_for_a_while}}},
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "stopped") == 0 || strcmp(name, "killed") == 0 || strcmp(name, "heir") == 0)
        return family(name);
    if (strcmp(name, "recursive") == 0)
        lock_of(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    if (strcmp(name, "errorcheck") == 0)
        lock_of(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    if (strcmp(name, "robust") == 0)
        lock_of(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    if (strcmp(name, "inherits") == 0)
        lock_of(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
    must(sem_init(&semaphore, strcmp(name, "shared") == 0, 0));
    signal(SIGUSR1, on_signal);
    must(pipe(ends));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (strcmp(name, cases[i].name) != 0)
            continue;
        must(pthread_barrier_init(&barrier, NULL, cases[i].count));
        must(pthread_barrier_init(&other_barrier, NULL, 2));
        pthread_t started[3];
        int count = 0;
        for (; count < 3 && cases[i].threads[count].does; count++) {
            must(pthread_create(&started[count], NULL, cases[i].threads[count].does, NULL));
            pthread_setname_np(started[count], cases[i].threads[count].name);
            first = started[0];
            // In this order.
            sleep_us(2000);
        }
        sleep_us(300000);
        if (strcmp(name, "again") == 0) {
            must(pthread_kill(started[0], SIGUSR1));
            sleep_us(100000);
        }
        printf("stuck %d\n", getpid());
        fflush(stdout);
        // The first is another's to join.
        for (int thread = strcmp(name, "join") == 0; thread < count; thread++)
            must(pthread_join(started[thread], NULL));
        return 0;
    }
    fprintf(stderr, "hangs: what?\n");
    return 2;
}
