// Threads that meet by std::condition_variable_any, and only sleep: it is not seen in the code
// that this is a barrier, since the condition has a mutex of its own.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex mutex;
static std::condition_variable_any changed;
static int here, round_now;

__attribute__((noinline)) static void meet()
{
    std::unique_lock<std::mutex> lock(mutex);
    int mine = round_now;
    if (++here == 3) {
        here = 0;
        round_now++;
        changed.notify_all();
    } else {
        changed.wait(lock, [mine] { return mine != round_now; });
    }
}

int main()
{
    std::vector<std::thread> threads;
    for (int me = 0; me < 3; me++)
        threads.emplace_back([me] {
            for (int round = 0; round < 200; round++) {
                std::this_thread::sleep_for(std::chrono::milliseconds(me == 1 ? 4 : 1));
                meet();
            }
        });
    for (auto &thread : threads)
        thread.join();
}
