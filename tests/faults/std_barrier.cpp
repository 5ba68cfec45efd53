// Two threads with a std::barrier, and a list that is divided in the wrong place.
//
// build: g++ -std=c++20
// must: static imbalance at 
// must: std_barrier.cpp:
// must: T1 
// never: dynamic imbalance
#include <barrier>
#include <thread>
static volatile double sink;
static void search(long nodes) { double s = 0; for (long n = 1; n <= nodes; n++) s += 1.0 / double(n); sink = s; }
int main()
{
    std::barrier<> level(2);
    auto explore = [&](long nodes) {
        for (int depth = 0; depth < 60; depth++) {
            search(nodes);
            level.arrive_and_wait();
        }
    };
    std::thread other(explore, 6000000L);
    explore(2000000);
    other.join();
}
