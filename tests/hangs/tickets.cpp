// A lock of tickets, whose third holder ends without serving the next one. Not optimised: the loop
// reads through functions of the library.
// build: g++ -std=c++20 -g -pthread
// busy: yes
// outcome: hung
// must: no thread of the process is left that could change it
// never: slow, or a loop without end
#include <atomic>
#include <thread>
#include <vector>
struct Tickets {
    std::atomic<unsigned> next{0}, serving{0};
    unsigned enter() {
        unsigned mine = next.fetch_add(1);
        while (serving.load(std::memory_order_acquire) != mine)
            std::this_thread::yield();
        return mine;
    }
    void leave() { serving.fetch_add(1); }
};
static Tickets tickets;
static void work() {
    // By ticket: the threads may come in any order, and nobody waits behind the last.
    if (tickets.enter() == 2)
        return;
    tickets.leave();
}
int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back(work);
    for (auto &thread : threads)
        thread.join();
}
