// The main thread joins a thread that waits for a lock of the main thread.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: wait for each other for ever
// must: waits for the end of
// never: no circle of waits
// never: not known
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static int entries;
static void *fill(void *unused) {
    usleep(10000);
    pthread_mutex_lock(&table);
    entries++;
    pthread_mutex_unlock(&table);
    return unused;
}
int main(void) {
    pthread_t filler;
    pthread_mutex_lock(&table);
    pthread_create(&filler, NULL, fill, NULL);
    pthread_join(filler, NULL);
    pthread_mutex_unlock(&table);
    return entries;
}
