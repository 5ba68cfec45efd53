// One thread syncs its log to the disk, and sleeps, while it holds the lock that all others need.
//
// must: contended lock: threads wait
// must: for the mutex locked at note log_lock.c:
// must: held mostly by T2
// never: imbalance at
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile double sink;
static int file;

static void burn(int us)
{
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        sink += 1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    } while ((to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3 < us);
}

__attribute__((noinline)) static void flush_log(void)
{
    pthread_mutex_lock(&lock);
    usleep(8000);
    if (write(file, "x", 1) == 1)
        fsync(file);
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void note(void)
{
    pthread_mutex_lock(&lock);
    sink += 1;
    pthread_mutex_unlock(&lock);
}

static void *work(void *flushes)
{
    for (int round = 0; round < 150; round++) {
        burn(1000);
        if (flushes)
            flush_log();
        else
            note();
    }
    return NULL;
}

int main(void)
{
    pthread_t all[3];
    char name[] = "/tmp/log-XXXXXX";
    file = mkstemp(name);
    unlink(name);
    for (int i = 0; i < 3; i++)
        pthread_create(all + i, NULL, work, i == 1 ? &lock : NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(all[i], NULL);
    return 0;
}
