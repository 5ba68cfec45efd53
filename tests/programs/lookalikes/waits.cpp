// What C++20 has for threads that wait for each other, used for other things than barriers.
//
// waits KIND [rounds]
//
// atomic     std::atomic::wait and notify_one, two threads in turn
// atomics    the same with three threads and notify_all
// semaphore  two std::binary_semaphore, one for each direction
// counting   a std::counting_semaphore with two places for three threads
// future     std::async, one call after the other
// condition  std::condition_variable with a predicate, three threads in turn
// mutex      a std::mutex that is always wanted
// shared     a std::shared_mutex with readers and a writer
// latch      a std::latch for each piece of work, which one thread counts down
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

static long rounds = 3000;
static volatile double sink;

static void work(long by)
{
    for (long i = 0; i < by * 1000; i++)
        sink = sink + 1;
}

template <class Act> static void in_threads(int count, Act act)
{
    std::vector<std::thread> threads;
    for (int me = 0; me < count; me++)
        threads.emplace_back(act, me);
    for (auto &thread : threads)
        thread.join();
}

static std::atomic<int> turn;

static void take_turns(int count)
{
    in_threads(count, [count](int me) {
        for (long i = 0; i < rounds; i++) {
            for (int now; (now = turn.load()) != me;)
                turn.wait(now);
            work(20);
            turn.store((me + 1) % count);
            if (count == 2)
                turn.notify_one();
            else
                turn.notify_all();
        }
    });
}

static void semaphores()
{
    std::binary_semaphore there(0), back(0);
    in_threads(2, [&](int me) {
        for (long i = 0; i < rounds; i++) {
            if (me == 0) {
                work(20);
                there.release();
                back.acquire();
            } else {
                there.acquire();
                work(20);
                back.release();
            }
        }
    });
}

static void counting()
{
    std::counting_semaphore<2> places(2);
    in_threads(3, [&](int) {
        for (long i = 0; i < rounds; i++) {
            places.acquire();
            work(20);
            places.release();
        }
    });
}

static void futures()
{
    for (long i = 0; i < rounds / 3; i++) {
        auto made = std::async(std::launch::async, [] { work(20); return 1; });
        work(10);
        made.get();
    }
}

static void condition()
{
    std::mutex mutex;
    std::condition_variable changed;
    int now = 0;
    in_threads(3, [&](int me) {
        for (long i = 0; i < rounds; i++) {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return now == me; });
            work(20);
            now = (now + 1) % 3;
            changed.notify_all();
        }
    });
}

static void mutexes()
{
    std::mutex mutex;
    in_threads(3, [&](int me) {
        for (long i = 0; i < rounds; i++) {
            {
                std::lock_guard lock(mutex);
                work(20);
            }
            work(me);
        }
    });
}

static void shared()
{
    std::shared_mutex mutex;
    in_threads(3, [&](int me) {
        for (long i = 0; i < rounds; i++) {
            if (me == 0) {
                std::unique_lock lock(mutex);
                work(20);
            } else {
                std::shared_lock lock(mutex);
                work(10);
            }
            work(5);
        }
    });
}

static void latches()
{
    std::vector<std::unique_ptr<std::latch>> ready;
    for (long i = 0; i < rounds; i++)
        ready.push_back(std::make_unique<std::latch>(1));
    in_threads(3, [&](int me) {
        for (long i = 0; i < rounds; i++) {
            if (me == 0) {
                work(20);
                ready[i]->count_down();
            } else {
                ready[i]->wait();
            }
        }
    });
}

int main(int argc, char **argv)
{
    std::string kind = argc > 1 ? argv[1] : "";
    if (argc > 2)
        rounds = std::atol(argv[2]);
    if (kind == "atomic")
        take_turns(2);
    else if (kind == "atomics")
        take_turns(3);
    else if (kind == "semaphore")
        semaphores();
    else if (kind == "counting")
        counting();
    else if (kind == "future")
        futures();
    else if (kind == "condition")
        condition();
    else if (kind == "mutex")
        mutexes();
    else if (kind == "shared")
        shared();
    else if (kind == "latch")
        latches();
    else
        return 2;
    return 0;
}
