// A barrier counts the main thread, which does not come.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -g -pthread -static
// build: gcc -O2 -pthread -s
// outcome: hung
// must: can never complete
// must: it waits for 5 threads, 4 are there
// must: the count is too large: no thread of the process has ended
// never: no circle of waits
// never: not known
#include <pthread.h>
static pthread_barrier_t step;
static void *work(void *unused) {
    pthread_barrier_wait(&step);
    return unused;
}
int main(void) {
    pthread_t all[4];
    pthread_barrier_init(&step, NULL, 5);
    for (int i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    return 0;
}
