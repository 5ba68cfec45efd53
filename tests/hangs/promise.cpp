// A promise is kept by nobody.
// build: g++ -std=c++20 -O2 -g -pthread
// outcome: hung
// must: no thread of the process is left that could wake it
// must: promise.cpp:{get}
// never: no circle of waits
// never: not known
#include <future>
#include <thread>
static std::promise<int> answer;
static void compute(bool fails) {
    if (!fails)
        answer.set_value(42);
}
int main() {
    std::thread worker(compute, true);
    worker.join();
    auto result = answer.get_future();
    return result.get(); // SITE get
}
