// A thread polls for a number that no thread is left to change.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: looks again and again, and sleeps in between, until
// must: no thread of the process is left that could change it
// never: waits for something outside of it
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
static atomic_int done;
static void *work(void *argument) {
    if (argument)
        done++;
    return NULL;
}
static void wait_for_all(void) {
    while (done < 2)
        usleep(20000);
}
int main(void) {
    pthread_t workers[2];
    for (long at = 0; at < 2; at++)
        pthread_create(&workers[at], NULL, work, (void *)at);
    for (int at = 0; at < 2; at++)
        pthread_join(workers[at], NULL);
    wait_for_all();
    return 0;
}
