// Every thread writes its block and waits for the disk in every round: all are equally slow.
//
// must: asleep
// must: save sync_each.c: | fsync
// never: imbalance at
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t meet;
static volatile double sink;

static void burn(int us)
{
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        sink += 1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    } while ((to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3 < us);
}

__attribute__((noinline)) static void save(int file)
{
    static char block[1 << 16];
    if (write(file, block, sizeof block) == sizeof block)
        fsync(file);
    usleep(4000); // the disk of a test machine may be memory
    sink += 1;
}

static void *work(void *unused)
{
    char name[] = "block-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    for (int round = 0; round < 150; round++) {
        burn(1500);
        save(file);
        pthread_barrier_wait(&meet);
    }
    return unused;
}

int main(void)
{
    pthread_t other;
    pthread_barrier_init(&meet, NULL, 2);
    pthread_create(&other, NULL, work, NULL);
    work(NULL);
    pthread_join(other, NULL);
    return 0;
}
