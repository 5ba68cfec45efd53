// Programs that never hang, whose threads sleep most of the time: for looks that must not
// say that they do.
//
// contended mutex: threads want one mutex, and whoever has it sleeps
// contended barrier: two threads meet again and again
// contended heirs: threads that are started have the mutex once and end
#include "common.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void have_it(void)
{
    must(pthread_mutex_lock(&mutex));
    sleep_us(700);
    must(pthread_mutex_unlock(&mutex));
}

static void *wants(void *unused)
{
    (void)unused;
    for (;;)
        have_it();
}

static void *meets(void *unused)
{
    for (;;) {
        sleep_us(unused ? 300 : 900);
        pthread_barrier_wait(&barrier);
    }
}

static void *has_it_once(void *unused)
{
    have_it();
    return unused;
}

static void *begets(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_t heir;
        must(pthread_create(&heir, NULL, has_it_once, NULL));
        must(pthread_join(heir, NULL));
    }
}

static void start(void *(*does)(void *), int count)
{
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, does, i ? &barrier : NULL));
    }
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    must(pthread_barrier_init(&barrier, NULL, 2));
    if (strcmp(name, "mutex") == 0)
        start(wants, 6);
    else if (strcmp(name, "barrier") == 0)
        start(meets, 2);
    else if (strcmp(name, "heirs") == 0)
        start(begets, 6);
    else
        return 2;
    printf("ready\n");
    fflush(stdout);
    for (;;)
        sleep_us(1000000);
}
