// C++: the site is a method in a namespace.
#include "common.h"
#include <thread>
#include <vector>

namespace simulation {
class Cell {
    pthread_barrier_t &barrier;
    volatile long passed = 0;

public:
    explicit Cell(pthread_barrier_t &b) : barrier(b) {}
    __attribute__((noinline)) void exchange(double step)
    {
        pthread_barrier_wait(&barrier); // SITE method
        passed = passed + (step > 0);
    }
};
}

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 50);
    pthread_barrier_t barrier;
    must(pthread_barrier_init(&barrier, nullptr, 3));
    std::vector<std::thread> team;
    for (int i = 0; i < 3; i++)
        team.emplace_back([&] {
            simulation::Cell cell(barrier);
            for (long round = 0; round < rounds; round++)
                cell.exchange(0.5);
        });
    for (auto &thread : team)
        thread.join();
}
