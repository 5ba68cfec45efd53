// More threads than the barrier takes: whoever comes fills its rounds. The
// threads draw arrivals=N tickets in all, a multiple of the barrier's count.
#include <stdatomic.h>
#include "common.h"

#define THREADS 6
#define COUNT 3
static long arrivals;
static atomic_long drawn;
static pthread_barrier_t barrier;

static void *work(void *unused)
{
    while (atomic_fetch_add(&drawn, 1) < arrivals)
        pthread_barrier_wait(&barrier); // SITE crowd
    return unused;
}

int main(int argc, char **argv)
{
    arrivals = option(argc, argv, "arrivals", 3000);
    pthread_t handles[THREADS];
    must(pthread_barrier_init(&barrier, NULL, COUNT));
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&handles[i], NULL, work, NULL));
    for (int i = 0; i < THREADS; i++)
        must(pthread_join(handles[i], NULL));
    return 0;
}
