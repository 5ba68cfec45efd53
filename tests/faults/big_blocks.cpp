// Every step allocates large blocks anew: threads wait for the kernel to clear memory.
//
// build: g++ -std=c++20
// must: page faults: the kernel takes
// never: imbalance at
#include <barrier>
#include <cstdlib>
#include <thread>
#include <vector>
#include <malloc.h>
static std::barrier meet(2);
static volatile double sink;
static void convolve(int me)
{
    for (int step = 0; step < 25; step++) {
        for (int k = 0; k < 4; k++) {
            std::vector<float> scratch(4 << 20);
            scratch[me] = 1; sink = scratch[77];
        }
        meet.arrive_and_wait();
    }
}
int main()
{
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    std::vector<std::thread> t;
    for (int i = 0; i < 2; i++) t.emplace_back(convolve, i);
    for (auto &x : t) x.join();
}
