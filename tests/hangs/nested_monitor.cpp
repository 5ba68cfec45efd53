// A consumer waits for an item and keeps the outer lock, which the producer needs.
// build: g++ -std=c++20 -O2 -g -pthread
// outcome: hung
// must: waits for the condition variable
// must: in Queue::take() nested_monitor.cpp:{take}
// must: in Service::put() nested_monitor.cpp:{put}
// never: no circle of waits
// never: not known
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
struct Queue {
    std::mutex lock;
    std::condition_variable filled;
    std::deque<int> items;
    int take() {
        std::unique_lock<std::mutex> held(lock);
        while (items.empty())
            filled.wait(held); // SITE take
        int item = items.front();
        items.pop_front();
        return item;
    }
    void put(int item) {
        std::lock_guard<std::mutex> held(lock);
        items.push_back(item);
        filled.notify_one();
    }
};
struct Service {
    std::mutex outer;
    Queue queue;
    int take() {
        std::lock_guard<std::mutex> held(outer);
        return queue.take();
    }
    void put(int item) {
        std::lock_guard<std::mutex> held(outer); // SITE put
        queue.put(item);
    }
};
int main() {
    Service service;
    std::thread consumer([&] { service.take(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::thread producer([&] { service.put(1); });
    consumer.join();
    producer.join();
}
