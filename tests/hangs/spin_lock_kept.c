// A thread returns early and keeps a spin lock.
// build: gcc -O2 -g -pthread
// busy: yes
// outcome: hung
// must: waits for a spin lock
// must: in deposit() spin_lock_kept.c:{lock}
// must: no thread of the process is left that could change it
// never: no circle of waits
#include <pthread.h>
static pthread_spinlock_t guard;
static long balance;
static void __attribute__((noinline)) deposit(long sum) {
    pthread_spin_lock(&guard); // SITE lock
    if (sum < 0)
        return;
    balance += sum;
    pthread_spin_unlock(&guard);
}
static void *tell(void *sum) {
    for (long i = 0; i < 10; i++)
        deposit((long)sum - i);
    return NULL;
}
int main(void) {
    pthread_t threads[3];
    pthread_spin_init(&guard, PTHREAD_PROCESS_PRIVATE);
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, tell, (void *)(3 * i));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
