// All threads allocate from the only arena that they are allowed.
//
// must: contended lock: threads wait
// must: a lock of the memory allocator, in
// must: work allocate.c:
// never: imbalance at
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

static void *work(void *unused)
{
    void *kept[64] = {NULL};
    for (int i = 0; i < 1500000; i++) {
        int at = i & 63;
        free(kept[at]);
        kept[at] = malloc(2000 + (i * 37) % 9000);
        ((char *)kept[at])[0] = 1;
    }
    return unused;
}

int main(void)
{
    pthread_t all[4];
    mallopt(M_ARENA_MAX, 1);
    for (int i = 0; i < 4; i++)
        pthread_create(all + i, NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    return 0;
}
