// A daemon that waits for a signal: its handler tells the other thread to go on.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -pthread -static -s
// outcome: outside
// must: waits for something outside
// must: pause()
// never: no thread of the process is left
// never: handles no signal
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static volatile sig_atomic_t reload;
static void on_signal(int number) { reload = number; }
static void *work(void *none) {
    pthread_mutex_lock(&lock);
    while (!reload)
        pthread_cond_wait(&told, &lock);
    pthread_mutex_unlock(&lock);
    return none;
}
int main(void) {
    pthread_t worker;
    signal(SIGHUP, on_signal);
    pthread_create(&worker, NULL, work, NULL);
    while (!reload)
        pause();
    pthread_cond_signal(&told);
    return pthread_join(worker, NULL);
}
