// std::barrier for more threads than there are.
// build: g++ -std=c++20 -O2 -g -pthread
// outcome: hung
// must: no other can come
// never: no circle of waits
#include <barrier>
#include <thread>
#include <vector>
static std::barrier step(4);
static void work() {
    step.arrive_and_wait();
}
int main() {
    std::vector<std::jthread> all;
    for (int i = 0; i < 3; i++)
        all.emplace_back(work);
}
