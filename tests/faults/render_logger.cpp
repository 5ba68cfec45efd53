// Renders frames in rows with two threads, each bound to a CPU of its own; a logger that polls for
// messages without sleeping is bound to the second CPU.
// fault: `logger` takes CPU 1 from the second renderer.
// build: g++ -std=c++20
// must: logger
// must: CPU 1
// never: static imbalance
// never: more threads than CPUs
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <vector>

static std::atomic<bool> over{false};
static std::atomic<long> message{0};

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void log_messages()
{
    pthread_setname_np(pthread_self(), "logger");
    bind_to(1);
    long seen = 0;
    while (!over.load(std::memory_order_relaxed))
        if (message.load(std::memory_order_relaxed) != seen)
            seen = message.load(std::memory_order_relaxed);
}

int main()
{
    constexpr int width = 320, height = 160, frames = 60;
    std::vector<float> picture(width * height);
    std::barrier frame_done(2);
    auto render = [&](int me) {
        pthread_setname_np(pthread_self(), me ? "render-1" : "render-0");
        bind_to(me);
        for (int frame = 0; frame < frames; frame++) {
            for (int y = me; y < height; y += 2)
                for (int x = 0; x < width; x++) {
                    float v = 0;
                    for (int i = 1; i < 16; i++)
                        v += std::sin(x * 0.01f * i + frame) * std::cos(y * 0.02f * i);
                    picture[y * width + x] = v;
                }
            message++;
            frame_done.arrive_and_wait();
        }
    };
    std::thread logger(log_messages), first(render, 0), second(render, 1);
    first.join();
    second.join();
    over = true;
    logger.join();
    std::printf("%g\n", picture[1234]);
}
