// All words are counted in one table, under one mutex that is held while each is counted.
//
// must: contended lock: threads wait
// must: for the mutex locked at 
// must: add word_counts.cpp:
// never: imbalance at
#include <chrono>
#include <map>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

static std::mutex table_lock;
static std::map<int, long> table;
static pthread_barrier_t meet;
static volatile double sink;

static void burn(int us)
{
    timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        sink = sink + 1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    } while ((to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3 < us);
}

__attribute__((noinline)) static void add(int word)
{
    std::lock_guard<std::mutex> guard(table_lock);
    table[word % 100]++;
    burn(1500);
}

static void count(int me)
{
    for (int round = 0; round < 30; round++) {
        for (int word = 0; word < 10; word++) {
            burn(300);
            add(word * me);
        }
        pthread_barrier_wait(&meet);
    }
}

int main()
{
    pthread_barrier_init(&meet, nullptr, 2);
    std::thread other(count, 1);
    count(0);
    other.join();
}
