// Two threads wait for a condition that nobody signals, beside one that only sleeps again and again.
// build: g++ -std=c++17 -O2 -g -pthread
// build: g++ -std=c++17 -O2 -g -pthread -DMS=200
// outcome: hung
// must: no thread of the process is left that could wake it
// must: spins in an endless loop, and sleeps in each turn
// never: waits for something outside of it
// never: is not known
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#ifndef MS
#define MS 2000
#endif
static std::mutex door;
static std::condition_variable filled;
static bool full;
static void take() {
    std::unique_lock<std::mutex> lock(door);
    filled.wait(lock, [] { return full; });
}
int main() {
    std::thread beats([] {
        for (;;)
            std::this_thread::sleep_for(std::chrono::milliseconds(MS));
    });
    std::thread one(take), other(take);
    one.join();
    other.join();
    beats.join();
}
