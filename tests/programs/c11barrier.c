/* A barrier of one's own from C11's mtx_t and cnd_t, whose threads only sleep. */
#include "common.h"
#include <threads.h>

enum { THREADS = 3, ROUNDS = 200 };

static mtx_t mutex;
static cnd_t changed;
static int here, round_now;

__attribute__((noinline)) static void meet(void) {
    mtx_lock(&mutex);
    int mine = round_now;
    if (++here == THREADS) {
        here = 0;
        round_now++;
        cnd_broadcast(&changed);
    } else {
        while (mine == round_now)
            cnd_wait(&changed, &mutex);
    }
    mtx_unlock(&mutex);
}

static int work(void *argument) {
    long me = (long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        sleep_us(me == 1 ? 4000 : 1000);
        meet();
    }
    return 0;
}

int main(void) {
    thrd_t others[THREADS];
    mtx_init(&mutex, mtx_plain);
    cnd_init(&changed);
    for (long i = 1; i < THREADS; i++)
        thrd_create(&others[i], work, (void *)i);
    work(NULL);
    for (int i = 1; i < THREADS; i++)
        thrd_join(others[i], NULL);
    return 0;
}
