// C++: a barrier of the program's own that can be broken, which it tells by an
// exception; then the threads go on with another one, of the C library.
//
// throws [rounds=20]
#include "common.h"
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

struct Broken {};

class Gate {
    std::mutex mutex;
    std::condition_variable all_here;
    int expected, waiting = 0;
    unsigned episode = 0;
    bool broken = false;

public:
    long passed = 0;
    explicit Gate(int count) : expected(count) {}
    __attribute__((noinline)) long wait()
    {
        std::unique_lock<std::mutex> lock(mutex);
        if (broken)
            throw Broken();
        unsigned mine = episode;
        if (++waiting == expected) {
            waiting = 0;
            episode++;
            all_here.notify_all();
        }
        all_here.wait(lock, [&] { return mine != episode || broken; });
        if (mine == episode)
            throw Broken();
        return ++passed;
    }
    void breaks()
    {
        std::lock_guard<std::mutex> lock(mutex);
        broken = true;
        all_here.notify_all();
    }
};

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 20);
    Gate gate(2);
    pthread_barrier_t after;
    must(pthread_barrier_init(&after, nullptr, 2));
    long caught[2] = {0, 0};
    std::vector<std::thread> team;
    for (int me = 0; me < 2; me++)
        team.emplace_back([&, me] {
            for (long round = 0; round < rounds; round++)
                gate.wait(); // SITE gate
            if (me == 1) {
                sleep_us(20000);
                gate.breaks();
            }
            try {
                gate.wait();
            } catch (const Broken &) {
                caught[me]++;
            }
            for (long round = 0; round < rounds; round++)
                pthread_barrier_wait(&after); // SITE after
        });
    for (auto &thread : team)
        thread.join();
    printf("caught %ld %ld\n", caught[0], caught[1]);
}
