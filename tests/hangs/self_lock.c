// A function takes a lock that its caller holds.
// build: gcc -O2 -g -pthread
// build: gcc -O2 -g -pthread -static
// outcome: hung
// must: that it holds itself
// must: add() self_lock.c:{again}
// never: no circle of waits
// never: not known
#include <pthread.h>
static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;
static int sum;
__attribute__((noinline)) static void add(int by) {
    pthread_mutex_lock(&books); // SITE again
    sum += by;
    pthread_mutex_unlock(&books);
}
int main(void) {
    pthread_mutex_lock(&books);
    add(1);
    pthread_mutex_unlock(&books);
    return sum;
}
