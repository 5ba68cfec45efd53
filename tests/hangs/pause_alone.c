// A program that does nothing until it is ended.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -pthread -static -s
// outcome: outside
// must: waits for something outside
// must: pause()
// never: no thread of the process is left
// never: for ever
#include <pthread.h>
#include <unistd.h>
static void *idle(void *none) {
    pause();
    return none;
}
int main(void) {
    pthread_t other;
    pthread_create(&other, NULL, idle, NULL);
    return pthread_join(other, NULL);
}
