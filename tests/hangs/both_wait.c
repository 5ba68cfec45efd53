// Two threads wait for a token that each is to get from the other.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: condition variable
// must: no thread of the process is left that could wake it
// never: no circle of waits
// never: not known
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER, right = PTHREAD_COND_INITIALIZER;
static int tokens[2];
static void *pass(void *which) {
    int own = (int)(long)which;
    pthread_mutex_lock(&lock);
    while (!tokens[own])
        pthread_cond_wait(own ? &right : &left, &lock);
    tokens[!own] = 1;
    pthread_cond_signal(own ? &left : &right);
    pthread_mutex_unlock(&lock);
    return NULL;
}
int main(void) {
    pthread_t all[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&all[i], NULL, pass, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(all[i], NULL);
    return 0;
}
