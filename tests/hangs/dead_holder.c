// A thread ends with a lock.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: has ended without letting go
// must: dead_holder.c:{take}
// never: no circle of waits
// never: not known
#include <pthread.h>
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static void *fail(void *unused) {
    pthread_mutex_lock(&log_lock);
    return unused;
}
int main(void) {
    pthread_t one;
    pthread_create(&one, NULL, fail, NULL);
    pthread_join(one, NULL);
    pthread_mutex_lock(&log_lock); // SITE take
    return 0;
}
