// One of two threads waits for a signal that no handler takes, and so never comes to the barrier.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -g -pthread -static
// build: gcc -O2 -pthread -static -s
// build: musl-gcc -O2 -g -pthread -static
// outcome: hung
// must: pause()
// must: and the process handles no signal
// never: waits for something outside
// never: whether
#include <pthread.h>
#include <unistd.h>
static pthread_barrier_t step;
static void *work(void *none) {
    pthread_barrier_wait(&step);
    return none;
}
int main(void) {
    pthread_t other;
    pthread_barrier_init(&step, NULL, 2);
    pthread_create(&other, NULL, work, NULL);
    pause();
    pthread_barrier_wait(&step);
    return pthread_join(other, NULL);
}
