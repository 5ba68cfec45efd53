// A pool that takes jobs from a list under a spin lock, and walks the list while it holds that. There is no barrier.
//
// must: costly lock: threads need
// must: take_job spin_queue.c:
// never: imbalance at
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define WORKERS 2
#define JOBS 4200
struct job { int id, priority, taken; struct job *next; };
static struct job *jobs;
static pthread_spinlock_t list_lock;
static volatile double out[WORKERS][16];

static struct job *take_job(void)
{
    struct job *best = NULL;
    pthread_spin_lock(&list_lock);
    for (int pass = 0; pass < 20; pass++)
        for (struct job *j = jobs; j; j = j->next)
            if (!j->taken && (!best || j->priority > best->priority))
                best = j;
    if (best)
        best->taken = 1;
    pthread_spin_unlock(&list_lock);
    return best;
}

static double execute(const struct job *j)
{
    double x = j->id;
    for (int i = 0; i < 15000; i++) x = x * 0.999 + 1.0 / (i + 1);
    return x;
}

static void *serve(void *argument)
{
    long me = (long)argument;
    for (struct job *j; (j = take_job());)
        out[me][0] += execute(j);
    return NULL;
}

int main(void)
{
    pthread_t pool[WORKERS];
    pthread_spin_init(&list_lock, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < JOBS; i++) {
        struct job *j = malloc(sizeof *j);
        *j = (struct job){ i, rand() % 1000, 0, jobs };
        jobs = j;
    }
    for (long i = 0; i < WORKERS; i++) pthread_create(&pool[i], NULL, serve, (void *)i);
    for (int i = 0; i < WORKERS; i++) pthread_join(pool[i], NULL);
    printf("%g\n", out[0][0] + out[1][0]);
    return 0;
}
