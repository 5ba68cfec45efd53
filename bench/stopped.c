// A thread that works for 1.5 s beside one that waits for it in a barrier. Prints for how long it did not get
// on at most, ns: between two readings of the clock lie some 30 ns unless something stops it.
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static pthread_barrier_t barrier;

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *waits(void *unused)
{
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(void)
{
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&other, NULL, waits, NULL) != 0)
        return 1;
    long long longest = 0, last = now_ns();
    for (long long end = last + 1500000000LL; last < end;) {
        long long next = now_ns();
        if (next - last > longest)
            longest = next - last;
        last = next;
    }
    pthread_barrier_wait(&barrier);
    pthread_join(other, NULL);
    printf("%lld\n", longest);
    return 0;
}
