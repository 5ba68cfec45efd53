// A thread that looks for work now and then.
// build: gcc -O2 -g -pthread
// outcome: any
// must: condition variable
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <pthread.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
int main(void) {
    pthread_mutex_lock(&lock);
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1000;
        pthread_cond_timedwait(&work, &lock, &until);
    }
}
