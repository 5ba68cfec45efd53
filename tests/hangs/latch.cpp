// One of three threads does not count down a latch.
// build: g++ -std=c++20 -O2 -g -pthread
// outcome: hung
// must: latch.cpp:{wait}
// must: no thread of the process is left that could wake it
// never: no circle of waits
// never: not known
#include <latch>
#include <thread>
#include <vector>
static std::latch done(3);
static void load(int which) {
    if (which != 1)
        done.count_down();
}
int main() {
    std::vector<std::jthread> all;
    for (int i = 0; i < 3; i++)
        all.emplace_back(load, i);
    done.wait(); // SITE wait
}
