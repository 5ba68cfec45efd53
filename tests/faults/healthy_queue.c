// A queue without barriers: workers sleep while there is nothing to do, and its lock is held briefly.
//
// healthy
// never: contended lock
// never: asleep in the work
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int queued, ends;
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

static void *work(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        while (queued == 0 && !ends)
            pthread_cond_wait(&more, &lock);
        if (queued == 0) {
            pthread_mutex_unlock(&lock);
            return unused;
        }
        queued--;
        pthread_mutex_unlock(&lock);
        burn(500);
    }
}

int main(void)
{
    pthread_t one, two;
    pthread_create(&one, NULL, work, NULL);
    pthread_create(&two, NULL, work, NULL);
    for (int item = 0; item < 300; item++) {
        usleep(3000);
        pthread_mutex_lock(&lock);
        queued += 2;
        pthread_cond_broadcast(&more);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    ends = 1;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return 0;
}
