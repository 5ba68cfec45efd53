// A destructor joins a thread that nobody tells to end.
// build: g++ -std=c++20 -O2 -g -pthread
// outcome: hung
// must: condition variable
// must: no thread of the process is left that could wake it
// must: destructor.cpp:{wait}
// never: no circle of waits
// never: not known
#include <condition_variable>
#include <mutex>
#include <thread>
struct Writer {
    std::mutex lock;
    std::condition_variable filled;
    bool ends = false;
    std::jthread thread{[this] { run(); }};
    void run() {
        std::unique_lock held(lock);
        while (!ends)
            filled.wait(held); // SITE wait
    }
};
int main() {
    Writer writer;
}
