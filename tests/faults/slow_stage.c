// A pipeline of four stages without barriers; the third waits for a device in each step, and the others
// wait for it, before and behind it.
//
// must: one thread sets the pace: T3
// must: device slow_stage.c:
// must: 3 others wait for it
// never: T4
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { STAGES = 4, ITEMS = 120, ROOM = 2 };

static struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int filled;
} queues[STAGES - 1];
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

static void move(struct queue *queue, int step)
{
    pthread_mutex_lock(&queue->lock);
    while (step > 0 ? queue->filled == ROOM : queue->filled == 0)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->filled += step;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

__attribute__((noinline)) static void device(void)
{
    usleep(8000);
    sink += 1;
}

static void *stage(void *argument)
{
    long number = (long)argument;
    for (int item = 0; item < ITEMS; item++) {
        if (number > 0)
            move(&queues[number - 1], -1);
        burn(500);
        if (number == 2)
            device();
        if (number < STAGES - 1)
            move(&queues[number], 1);
    }
    return 0;
}

int main(void)
{
    pthread_t threads[STAGES];
    for (int i = 0; i < STAGES - 1; i++) {
        pthread_mutex_init(&queues[i].lock, 0);
        pthread_cond_init(&queues[i].changed, 0);
    }
    for (long i = 0; i < STAGES; i++)
        pthread_create(&threads[i], 0, stage, (void *)i);
    for (int i = 0; i < STAGES; i++)
        pthread_join(threads[i], 0);
    return 0;
}
