// A part of each round that one thread does while the others wait, and one that all
// do: in functions of their own, which compute. Also compiled as C++.
//
// sampled [threads=4] [rounds=100] [serial=US] [parallel=US]  CPU time of each thread
//         [hold=US]      sleeps before it begins
// Prints what the part of the one took by the clock on the wall, and the rest, ns:
// `parts SERIAL PARALLEL`.
#include "common.h"

static long threads, rounds, serial, parallel;
static pthread_barrier_t barrier;
static uint64_t parts[2];

static inline __attribute__((always_inline)) void burn(long us)
{
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + (uint64_t)us * 1000;
    volatile uint64_t sum = (uint64_t)us;
    while (us > 0 && clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 20000; i++)
            sum = sum * 3 + (uint64_t)i;
}

#ifdef __cplusplus
namespace wave {
template <typename T> struct grid {
    static __attribute__((noinline)) void solve(T us)
    {
        burn(us);
        __asm__ volatile("nop");
    }
};
} // namespace wave
#define SOLVE wave::grid<long>::solve
#else
__attribute__((noinline)) static void solve(long us)
{
    burn(us);
    __asm__ volatile("nop"); // or the linker might take it for print_row
}
#define SOLVE solve
#endif

__attribute__((noinline)) static void print_row(long us)
{
    burn(us);
    __asm__ volatile("");
}

// Its frame is larger than one page, and it is not the last call that it makes.
__attribute__((noinline)) static long print_rows(long us)
{
    volatile char line[6000];
    line[us % 6000] = 1;
    print_row(us / 2);
    print_row(us - us / 2);
    return line[us % 6000];
}

static void *work(void *argument)
{
    long me = (long)argument;
    for (long round = 0; round < rounds; round++) {
        uint64_t began = now_ns();
        if (me == 0)
            print_rows(serial);
        uint64_t between = now_ns();
        pthread_barrier_wait(&barrier); // SITE printed
        SOLVE(parallel);
        pthread_barrier_wait(&barrier); // SITE solved
        if (me == 0) {
            parts[0] += between - began;
            parts[1] += now_ns() - between;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 100);
    serial = option(argc, argv, "serial", 5000);
    parallel = option(argc, argv, "parallel", 7500);
    pthread_t *handles = (pthread_t *)calloc((size_t)threads, sizeof *handles);
    must(pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    printf("ready\n");
    fflush(stdout);
    sleep_us(option(argc, argv, "hold", 0));
    for (long i = 1; i < threads; i++)
        must(pthread_create(&handles[i], NULL, work, (void *)i));
    work(NULL);
    for (long i = 1; i < threads; i++)
        must(pthread_join(handles[i], NULL));
    printf("parts %llu %llu\n", (unsigned long long)parts[0], (unsigned long long)parts[1]);
    return 0;
}
