// std::barrier of C++20 at which one thread is missing: it waits for a mutex that another
// has taken along to the barrier.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>

static std::barrier<> meeting(3);
static std::mutex lock;
// Whether it has been taken, however late that is on a busy machine.
static std::atomic<bool> is_held;
static volatile int done;

__attribute__((noinline)) static void meet()
{
    meeting.arrive_and_wait(); // SITE meet
    done = done + 1;
}

static void holder()
{
    std::lock_guard guard(lock);
    is_held = true;
    meet();
}

__attribute__((noinline)) static void take()
{
    while (!is_held)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard guard(lock); // SITE take
    meet();
}

int main()
{
    std::thread one(holder), two(meet), three(take);
    pthread_setname_np(one.native_handle(), "holder");
    pthread_setname_np(two.native_handle(), "one");
    pthread_setname_np(three.native_handle(), "wanter");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::printf("stuck %d\n", getpid());
    std::fflush(stdout);
    one.join();
    two.join();
    three.join();
}
