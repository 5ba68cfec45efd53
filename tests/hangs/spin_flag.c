// Consumers spin for a stage that no thread is left to make ready.
// build: gcc -O2 -g -pthread
// build: gcc -g -pthread
// busy: yes
// outcome: hung
// must: in wait_ready() spin_flag.c:{loop}
// must: no thread of the process is left that could change it
// never: slow, or a loop without end
// never: for ever
#include <pthread.h>
#include <stdatomic.h>
struct stage {
    atomic_int ready;
    int value;
};
static struct stage stages[3];
static void __attribute__((noinline)) wait_ready(struct stage *stage) {
    while (!atomic_load_explicit(&stage->ready, memory_order_acquire)) // SITE loop
        ;
}
static void *consume(void *stage) {
    wait_ready(stage);
    return stage;
}
static void *produce(void *stage) {
    ((struct stage *)stage)->value = 3;
    return stage;
}
int main(void) {
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, consume, &stages[1]);
    pthread_create(&threads[1], NULL, consume, &stages[1]);
    pthread_create(&threads[2], NULL, produce, &stages[1]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
