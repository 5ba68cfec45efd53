// A barrier of std::condition_variable.
//
// condbarrier [rounds=100]  three threads, the first of them comes last
//             [turns=1]     each of them in its turn
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace {

class Barrier {
public:
    explicit Barrier(unsigned needed) : needed(needed) {}

    void wait()
    {
        std::unique_lock<std::mutex> lock(mutex);
        const unsigned mine = episode;
        if (++count == needed) {
            count = 0;
            ++episode;
            changed.notify_all(); // SITE notify
        } else {
            changed.wait(lock, [&] { return mine != episode; }); // SITE wait
        }
    }

private:
    std::mutex mutex;
    std::condition_variable changed;
    unsigned needed, count = 0, episode = 0;
};

} // namespace

int main(int argc, char **argv)
{
    long rounds = 100, turns = 0;
    for (int i = 1; i < argc; i++)
        if (std::strncmp(argv[i], "rounds=", 7) == 0)
            rounds = std::atol(argv[i] + 7);
        else if (std::strncmp(argv[i], "turns=", 6) == 0)
            turns = std::atol(argv[i] + 6);
    Barrier barrier(3);
    std::vector<std::thread> threads;
    for (int me = 0; me < 3; me++)
        threads.emplace_back([me, rounds, turns, &barrier] {
            for (long round = 0; round < rounds; round++) {
                long last = turns ? round % 3 : 0;
                std::this_thread::sleep_for(std::chrono::microseconds(me == last ? 2000 : 100));
                barrier.wait();
            }
        });
    for (auto &thread : threads)
        thread.join();
}
