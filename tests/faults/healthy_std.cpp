// Even work between waits of a std::barrier.
//
// build: g++ -std=c++20
// healthy
// never: imbalance
// never: serial
// never: asleep
// never: more threads than CPUs
#include <barrier>
#include <thread>
static volatile double sink;
static void smooth(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / double(c); sink = s; }
int main()
{
    std::barrier<> step(2);
    auto run = [&] {
        for (int i = 0; i < 60; i++) {
            smooth(8000000);
            step.arrive_and_wait();
        }
    };
    std::thread other(run);
    run();
    other.join();
}
