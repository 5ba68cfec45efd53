// A reader of a read-write lock wants to write.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: read-write lock
// must: to write
// must: upgrade.c:{write}
// never: no circle of waits
// never: not known
#include <pthread.h>
static pthread_rwlock_t map = PTHREAD_RWLOCK_INITIALIZER;
static int size;
__attribute__((noinline)) static void grow(void) {
    pthread_rwlock_wrlock(&map); // SITE write
    size++;
    pthread_rwlock_unlock(&map);
}
int main(void) {
    pthread_rwlock_rdlock(&map);
    if (!size)
        grow();
    pthread_rwlock_unlock(&map);
    return size;
}
