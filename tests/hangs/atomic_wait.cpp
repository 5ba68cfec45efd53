// An atomic is waited for that nobody changes.
// build: g++ -std=c++20 -O2 -g -pthread
// outcome: hung
// must: no thread of the process is left that could wake it
// must: atomic_wait.cpp:{wait}
// never: no circle of waits
// never: not known
#include <atomic>
#include <thread>
static std::atomic<int> ready{0};
static void follow() {
    ready.wait(0); // SITE wait
}
int main() {
    std::jthread follower(follow);
}
