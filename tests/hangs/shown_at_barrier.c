// A barrier that lacks a thread, beside a thread that shows a number for ever.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -g -pthread -DPAUSE=20000
// busy: yes
// outcome: hung
// must: the barrier at shown_at_barrier.c:{meet} can never complete
// must: spins in an endless loop
// never: until its memory changes
// never: is missing
#include <pthread.h>
#include <unistd.h>
static pthread_barrier_t barrier;
static volatile long done, shown;
static void *show(void *unused) {
    for (;;) {
        shown = done;
#ifdef PAUSE
        usleep(PAUSE);
#endif
    }
    return unused;
}
static void *work(void *leaves) {
    for (int step = 0; step < 50; step++) {
        usleep(1000);
        if (leaves && step == 20)
            return leaves;
        pthread_barrier_wait(&barrier); // SITE meet
    }
    return leaves;
}
int main(void) {
    pthread_t shows, workers[3];
    pthread_barrier_init(&barrier, NULL, 3);
    pthread_create(&shows, NULL, show, NULL);
    for (int at = 0; at < 3; at++)
        pthread_create(&workers[at], NULL, work, at == 1 ? &barrier : NULL);
    for (int at = 0; at < 3; at++)
        pthread_join(workers[at], NULL);
    return 0;
}
