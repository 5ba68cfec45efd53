// A process is forked while another thread holds a lock that the child takes.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: forked
// must: waits in take() forked_lock.c:{take} for the mutex
// must: (it exists only in the parent), and nobody will unlock it
// never: no circle of waits
// never: not known
// never: has ended without letting go
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) static void take(void) {
    pthread_mutex_lock(&cache); // SITE take
    pthread_mutex_unlock(&cache);
}
static void *clean(void *unused) {
    for (;;) {
        pthread_mutex_lock(&cache);
        sleep(1000);
        pthread_mutex_unlock(&cache);
    }
    return unused;
}
int main(void) {
    pthread_t cleaner;
    pthread_create(&cleaner, NULL, clean, NULL);
    usleep(50000);
    pid_t child = fork();
    if (!child) {
        take();
        _exit(0);
    }
    return waitpid(child, NULL, 0) < 0;
}
