// A stripped program: a thread waits for a peer instead of coming to the barrier.
// build: gcc -O2 -pthread -s
// outcome: hung
// must: is missing at the barrier
// must: poll() for pipe:[
// never: no circle of waits
// never: not known
// never: has ended without coming
#include <poll.h>
#include <pthread.h>
#include <unistd.h>
static pthread_barrier_t step;
static int ends[2];
__attribute__((noinline)) static void receive(void) {
    struct pollfd one = {ends[0], POLLIN, 0};
    poll(&one, 1, -1);
}
__attribute__((noinline)) static void exchange(long which, int round) {
    if (which == 1 && round == 3)
        receive();
    pthread_barrier_wait(&step);
    __asm__ volatile("");
}
static void *work(void *which) {
    for (int round = 0; round < 5; round++)
        exchange((long)which, round);
    return NULL;
}
int main(void) {
    pthread_t all[3];
    if (pipe(ends))
        return 1;
    pthread_barrier_init(&step, NULL, 3);
    for (long i = 0; i < 3; i++)
        pthread_create(&all[i], NULL, work, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(all[i], NULL);
    return 0;
}
