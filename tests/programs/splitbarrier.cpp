// std::barrier whose arriving and waiting are two calls, with work in between.
//
// splitbarrier [rounds=100] [before=US] [between=US] [late=US]
//
// Thread 1 works longer before it arrives, by `late`. Prints, for each thread, how long it waited
// in all until the last had arrived, ns. With -DTOGETHER the two calls are one; with -DCOMPLETION the last
// thread calls a function; with -DINLINED the work between has no call.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

static long option(int argc, char **argv, const char *name, long otherwise)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return atol(argv[i] + length + 1);
    return otherwise;
}

static long now_ns()
{
    return std::chrono::steady_clock::now().time_since_epoch().count();
}

__attribute__((noinline)) static void work(long us)
{
    long until = now_ns() + us * 1000;
    while (now_ns() < until)
        ;
}

struct Completion {
    void operator()() noexcept
    {
#ifdef COMPLETION
        work(0);
#endif
    }
};

static double numbers[512];

static inline void between_the_two(long us)
{
#ifdef INLINED
    for (long round = 0; round < us; round++)
        for (double &number : numbers)
            number = number * 0.999 + 1;
#else
    work(us);
#endif
}

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 100);
    long before = option(argc, argv, "before", 1000);
    long between = option(argc, argv, "between", 1000);
    long late = option(argc, argv, "late", 2000);
    std::barrier<Completion> barrier(2);
    std::vector<long> arrived[2], waits[2];
    auto run = [&](int me) {
        for (long round = 0; round < rounds; round++) {
            work(me ? before + late : before);
            arrived[me].push_back(now_ns());
#ifdef TOGETHER
            waits[me].push_back(arrived[me].back());
            barrier.arrive_and_wait(); // SITE together
#else
            auto token = barrier.arrive(); // SITE arrive
            between_the_two(between);
            waits[me].push_back(now_ns());
            barrier.wait(std::move(token));
#endif
        }
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    for (int me = 0; me < 2; me++) {
        long idle = 0;
        for (long round = 0; round < rounds; round++) {
            long last = std::max(arrived[0][round], arrived[1][round]);
            idle += std::max(0L, last - waits[me][round]);
        }
        printf("%ld\n", idle);
    }
    return 0;
}
