// Workers that take tasks from a queue, with std::condition_variable.
//
// condqueue [threads=4]
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

int main(int argc, char **argv)
{
    int workers = 4;
    for (int i = 1; i < argc; i++)
        if (std::strncmp(argv[i], "threads=", 8) == 0)
            workers = std::atoi(argv[i] + 8);
    std::mutex mutex;
    std::condition_variable filled, emptied;
    std::queue<std::function<void()>> tasks;
    bool over = false;
    int pending = 0;
    std::vector<std::thread> threads;
    for (int me = 0; me < workers; me++)
        threads.emplace_back([&] {
            std::unique_lock<std::mutex> lock(mutex);
            for (;;) {
                filled.wait(lock, [&] { return over || !tasks.empty(); });
                if (tasks.empty())
                    return;
                auto task = std::move(tasks.front());
                tasks.pop();
                lock.unlock();
                task();
                lock.lock();
                if (--pending == 0)
                    emptied.notify_one();
            }
        });
    for (int round = 0; round < 300; round++) {
        std::unique_lock<std::mutex> lock(mutex);
        for (int task = 0; task < workers; task++) {
            tasks.emplace([] {
                volatile long sum = 0;
                for (long i = 0; i < 50000; i++)
                    sum = sum + i;
            });
            pending++;
        }
        filled.notify_all();
        emptied.wait(lock, [&] { return pending == 0; });
    }
    {
        std::lock_guard<std::mutex> lock(mutex);
        over = true;
    }
    filled.notify_all();
    for (auto &thread : threads)
        thread.join();
}
