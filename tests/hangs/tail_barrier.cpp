// A thread takes a lock twice while others wait at a barrier that their function calls at its end, by a jump.
// build: g++ -std=c++20 -O2 -g -pthread
// outcome: hung
// must: is missing at the barrier 0x
// must: that it holds itself, in again() tail_barrier.cpp:{again}
// never: at the barrier at libstdc++
// never: no circle of waits
#include <barrier>
#include <mutex>
#include <thread>
static std::barrier step(3);
static std::mutex lock;
__attribute__((noinline)) static void again() {
    lock.lock(); // SITE again
    step.arrive_and_wait();
}
static void waits() {
    step.arrive_and_wait();
}
static void locks() {
    lock.lock();
    again();
}
int main() {
    std::jthread one(waits), two(waits), three(locks);
}
