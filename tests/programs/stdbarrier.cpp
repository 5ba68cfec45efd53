// std::barrier of C++20, from two places and in several ways.
//
// stdbarrier [threads=4] [rounds=100] [load=US]
//            [slow=I]      who works ten times as long
//            [where=local|global|heap|completion]
//            [drop=1]      the last thread leaves after half of the rounds
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
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

static const char *text(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return otherwise;
}

static void work(long us)
{
    auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
    while (std::chrono::steady_clock::now() < until)
        ;
}

static long threads, rounds, load, slow, drop;

template <typename Barrier> __attribute__((noinline)) static void run(Barrier &barrier)
{
    std::vector<std::thread> all;
    for (long i = 0; i < threads; i++)
        all.emplace_back([&barrier, i] {
            for (long r = 0; r < rounds; r++) {
                work(i == slow ? 10 * load : load);
                barrier.arrive_and_wait(); // SITE first
                if (drop && i == threads - 1 && r == rounds / 2) {
                    barrier.arrive_and_drop(); // SITE drop
                    return;
                }
                work(load);
                barrier.arrive_and_wait(); // SITE second
            }
        });
    for (auto &one : all)
        one.join();
}

static std::ptrdiff_t count() { return threads; }

static void global()
{
    // Its address is part of the code.
    static std::barrier barrier(count());
    std::vector<std::thread> all;
    for (long i = 0; i < threads; i++)
        all.emplace_back([i] {
            for (long r = 0; r < rounds; r++) {
                work(i == slow ? 10 * load : load);
                barrier.arrive_and_wait(); // SITE global
            }
        });
    for (auto &one : all)
        one.join();
}

int main(int argc, char **argv)
{
    threads = option(argc, argv, "threads", 4);
    rounds = option(argc, argv, "rounds", 100);
    load = option(argc, argv, "load", 20);
    slow = option(argc, argv, "slow", -1);
    drop = option(argc, argv, "drop", 0);
    const char *where = text(argc, argv, "where", "local");
    if (strcmp(where, "global") == 0) {
        global();
    } else if (strcmp(where, "heap") == 0) {
        auto barrier = std::make_unique<std::barrier<>>(threads);
        run(*barrier);
    } else if (strcmp(where, "completion") == 0) {
        long turns = 0, odd = 0, even = 0;
        std::barrier barrier(threads, [&turns, &odd, &even]() noexcept {
            ++(turns++ % 2 ? odd : even);
        });
        run(barrier);
        std::printf("%ld\n", turns);
    } else {
        std::barrier barrier(threads);
        run(barrier);
    }
}
