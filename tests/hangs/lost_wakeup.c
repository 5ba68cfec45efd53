// A signal is sent before anybody waits for it, and no flag remembers it.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -g -pthread -static
// outcome: hung
// must: condition variable
// must: take() lost_wakeup.c:{wait}
// must: no thread of the process is left that could wake it
// never: no circle of waits
// never: not known
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static void *produce(void *unused) {
    pthread_mutex_lock(&lock);
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    return unused;
}
__attribute__((noinline)) static void take(void) {
    pthread_mutex_lock(&lock);
    pthread_cond_wait(&filled, &lock); // SITE wait
    pthread_mutex_unlock(&lock);
}
int main(void) {
    pthread_t producer;
    pthread_create(&producer, NULL, produce, NULL);
    usleep(50000);
    take();
    return pthread_join(producer, NULL);
}
