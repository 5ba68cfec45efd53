// Two threads hand a turn over to each other, and spin for it: not a hang.
// build: gcc -O2 -g -pthread
// busy: yes
// outcome: any
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <pthread.h>
#include <stdatomic.h>

static atomic_int turn;
static void *play(void *number) {
    int own = (int)(long)number;
    for (;;) {
        while (atomic_load(&turn) != own)
            ;
        atomic_store(&turn, 1 - own);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, play, (void *)i);
    pthread_join(threads[0], NULL);
}
