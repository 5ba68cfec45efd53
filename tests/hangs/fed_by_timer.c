// A thread sleeps for long, and then signals what another waits for: each time, or each sixtieth.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -g -pthread -DCOUNTS
// outcome: unknown
// must: waits for the condition variable
// must: and what it does after that is not known
// never: no thread of the process is left
// never: for ever
// never: waits for something outside of it
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static volatile long turns;
static int there;
static void put(void) {
    pthread_mutex_lock(&door);
    there++;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&door);
}
static void *feed(void *unused) {
    for (;;) {
        sleep(1000);
#ifdef COUNTS
        if (++turns % 60)
            continue;
#endif
        put();
    }
    return unused;
}
int main(void) {
    pthread_t feeds;
    pthread_create(&feeds, NULL, feed, NULL);
    pthread_mutex_lock(&door);
    while (there == 0)
        pthread_cond_wait(&filled, &door);
    return 0;
}
