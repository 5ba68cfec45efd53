// Four threads sort their parts and meet; threads 2 and 3 are bound to CPU 1 both, the others are
// free.
// fault: threads 2 and 3 share CPU 1.
// build: g++ -std=c++20
// must: more threads than CPUs | may only run on CPU 1
// never: static imbalance
#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <vector>

int main()
{
    constexpr int threads = 4, rounds = 30;
    std::barrier sorted(threads);
    std::vector<std::vector<uint32_t>> parts(threads, std::vector<uint32_t>(60000));
    std::vector<std::thread> team;
    for (int me = 0; me < threads; me++)
        team.emplace_back([&, me] {
            if (me >= 2) {
                cpu_set_t set;
                CPU_ZERO(&set);
                CPU_SET(1, &set);
                pthread_setaffinity_np(pthread_self(), sizeof set, &set);
            }
            uint32_t seed = 1;
            for (int round = 0; round < rounds; round++) {
                for (auto &value : parts[me])
                    value = seed = seed * 1664525 + 1013904223;
                std::sort(parts[me].begin(), parts[me].end());
                sorted.arrive_and_wait();
            }
        });
    for (auto &thread : team)
        thread.join();
    std::printf("%u\n", parts[3][100]);
}
