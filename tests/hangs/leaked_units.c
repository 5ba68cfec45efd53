// Threads end without giving back what they took from a semaphore.
// build: gcc -O2 -g -pthread
// outcome: hung
// must: semaphore
// must: no thread of the process is left that could wake it
// must: leaked_units.c:{take}
// never: no circle of waits
// never: not known
#include <pthread.h>
#include <semaphore.h>
static sem_t units;
static void *use(void *which) {
    sem_wait(&units); // SITE take
    if ((long)which >= 2)
        sem_post(&units);
    return NULL;
}
int main(void) {
    pthread_t all[4];
    sem_init(&units, 0, 2);
    for (long i = 0; i < 2; i++) {
        pthread_create(&all[i], NULL, use, (void *)i);
        pthread_join(all[i], NULL);
    }
    for (long i = 2; i < 4; i++)
        pthread_create(&all[i], NULL, use, (void *)i);
    for (int i = 2; i < 4; i++)
        pthread_join(all[i], NULL);
    return 0;
}
