// Two static variables, each of which needs the other first, in two threads.
// build: g++ -std=c++20 -O2 -g -pthread
// outcome: hung
// must: waits in table() twice_first.cpp:{table} for the static variable
// must: initialises
// must: they wait for each other for ever
// never: no circle of waits
// never: not known
#include <chrono>
#include <thread>
static int index(int depth);
static int slowly(int value) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return value;
}
static int table(int depth) {
    static int value = slowly(1) + (depth ? index(0) : 0); // SITE table
    return value;
}
static int index(int depth) {
    static int value = slowly(2) + (depth ? table(0) : 0);
    return value;
}
int main() {
    std::thread other([] { table(1); });
    index(1);
    other.join();
}
