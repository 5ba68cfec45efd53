// The first thread has more work before one barrier, the second before the other: arrivals are inlined.
//
// build: g++ -std=c++20
// must: static imbalance at step two_places.cpp:
// never: asleep
#include <barrier>
#include <thread>
#include <vector>
static std::barrier meet(2);
static volatile double sink;
static void kernel(int n) { double s = 0; for (int i = 1; i < n; i++) s += 1.0 / (s + i); sink = s; }
static void step(int me)
{
    for (int i = 0; i < 50; i++) {
        kernel(me == 0 ? 1600000 : 600000);
        meet.arrive_and_wait(); // forces
        kernel(me == 1 ? 1600000 : 600000);
        meet.arrive_and_wait(); // moves
    }
}
int main() { std::thread a(step, 0), b(step, 1); a.join(); b.join(); }
