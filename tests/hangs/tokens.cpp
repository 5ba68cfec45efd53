// Two threads take turns, and nobody gives the first turn.
// build: g++ -std=c++20 -O2 -g -pthread
// build: g++ -std=c++20 -O0 -g -pthread
// outcome: hung
// must: no thread of the process is left that could wake it
// never: no circle of waits
// never: not known
#include <semaphore>
#include <thread>
static std::binary_semaphore ping(0), pong(0);
static void play(std::binary_semaphore &wait, std::binary_semaphore &next) {
    for (int i = 0; i < 10; i++) {
        wait.acquire();
        next.release();
    }
}
int main() {
    std::jthread one(play, std::ref(ping), std::ref(pong));
    std::jthread two(play, std::ref(pong), std::ref(ping));
}
