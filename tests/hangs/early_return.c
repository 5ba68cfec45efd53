// One of four threads returns from its loop early.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -g -pthread -static
// build: gcc -O2 -pthread -s
// build: musl-gcc -O2 -g -pthread
// build: musl-gcc -O2 -g -pthread -static
// outcome: hung
// must: 3 are there
// must: can never complete
// must: a thread has ended without coming
// never: no circle of waits
// never: are missing too
#include <pthread.h>
#include <unistd.h>
static pthread_barrier_t step;
static void *work(void *which) {
    for (int i = 0; i < 5; i++) {
        if (i == 3 && (long)which == 2)
            return NULL;
        pthread_barrier_wait(&step);
    }
    return NULL;
}
int main(void) {
    pthread_t all[4];
    pthread_barrier_init(&step, NULL, 4);
    for (long i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, work, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    return 0;
}
