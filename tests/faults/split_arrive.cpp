// A std::barrier with arrive and wait apart: the second thread has more to do before it arrives.
//
// build: g++ -std=c++20
// must: T1 
// never: asleep
// never: serial
#include <barrier>
#include <thread>
#include <utility>
static volatile double sink;
static void smooth(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / double(c); sink = s; }
int main()
{
    std::barrier<> border(2);
    auto run = [&](long edge, long inside) {
        for (int step = 0; step < 50; step++) {
            smooth(edge);
            auto token = border.arrive();
            smooth(inside);
            border.wait(std::move(token));
        }
    };
    std::thread other(run, 8000000L, 1000000L);
    run(1000000, 1000000);
    other.join();
}
