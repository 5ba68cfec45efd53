// A server whose threads wait for guests that one of them lets in.
// build: gcc -O2 -g -pthread
// outcome: outside
// must: waits for something outside
// must: accept()
// never: no thread of the process is left
// never: for ever
// never: can never complete
#include <netinet/in.h>
#include <stddef.h>
#include <pthread.h>
#include <sys/socket.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t guests = PTHREAD_COND_INITIALIZER;
static int waiting;
static void *serve(void *unused) {
    pthread_mutex_lock(&lock);
    while (!waiting)
        pthread_cond_wait(&guests, &lock);
    pthread_mutex_unlock(&lock);
    return unused;
}
static void *listens(void *unused) {
    int door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET};
    if (!bind(door, (struct sockaddr *)&any, sizeof any) && !listen(door, 8))
        accept(door, NULL, NULL);
    pthread_mutex_lock(&lock);
    waiting++;
    pthread_cond_signal(&guests);
    pthread_mutex_unlock(&lock);
    return unused;
}
int main(void) {
    pthread_t all[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, i ? serve : listens, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    return 0;
}
