// Threads that take turns by std::condition_variable: no barrier.
//
// condturns [how=wait|retry|shared] [rounds=300]
//   wait    until it is one's turn, then gives it to the other
//   retry   waits once and takes the mutex again to look
//   shared  one writes and the others read, with a std::shared_mutex
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

static std::mutex mutex;
static std::condition_variable changed;
static std::shared_mutex shared;
static int turn;
static volatile long work_done;

static void work()
{
    for (int i = 0; i < 20000; i++)
        work_done = work_done + 1;
}

int main(int argc, char **argv)
{
    long rounds = 300;
    std::string how = "wait";
    for (int i = 1; i < argc; i++)
        if (std::strncmp(argv[i], "rounds=", 7) == 0)
            rounds = std::atol(argv[i] + 7);
        else if (std::strncmp(argv[i], "how=", 4) == 0)
            how = argv[i] + 4;
    std::vector<std::thread> threads;
    for (int me = 0; me < 2; me++)
        threads.emplace_back([me, rounds, how] {
            if (how == "wait")
                for (long round = 0; round < rounds; round++) {
                    std::unique_lock<std::mutex> lock(mutex);
                    changed.wait(lock, [&] { return turn == me; });
                    turn = !me;
                    changed.notify_one();
                }
            else if (how == "retry")
                for (long round = 0; round < rounds;) {
                    std::unique_lock<std::mutex> lock(mutex);
                    if (turn != me) {
                        changed.wait(lock);
                    } else {
                        turn = !me;
                        round++;
                        changed.notify_one();
                    }
                }
            else
                for (long round = 0; round < rounds; round++)
                    if (me == 0) {
                        shared.lock();
                        work();
                        shared.unlock();
                    } else {
                        shared.lock_shared();
                        work();
                        shared.unlock_shared();
                    }
        });
    for (auto &thread : threads)
        thread.join();
}
