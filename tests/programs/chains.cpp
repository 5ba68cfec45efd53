// C++: a barrier behind a method that is called by a table, behind a destructor,
// and behind a method of a class template.
#include "common.h"
#include <memory>
#include <thread>
#include <vector>

struct Meeting {
    virtual ~Meeting() = default;
    virtual void wait() = 0;
};

class Barrier : public Meeting {
    pthread_barrier_t barrier;
    volatile long passed = 0;

public:
    explicit Barrier(unsigned count) { must(pthread_barrier_init(&barrier, nullptr, count)); }
    void wait() override
    {
        pthread_barrier_wait(&barrier); // SITE method
        passed = passed + 1;
    }
};

class Section {
    Meeting &meeting;
    static thread_local volatile long left;

public:
    explicit Section(Meeting &m) : meeting(m) {}
    __attribute__((noinline)) ~Section()
    {
        meeting.wait(); // SITE destructor
        left = left + 1;
    }
};
thread_local volatile long Section::left = 0;

template <typename T> class Exchange {
    Meeting &meeting;
    T value = T();

public:
    explicit Exchange(Meeting &m) : meeting(m) {}
    __attribute__((noinline)) void put(const T &t)
    {
        value = t;
        meeting.wait(); // SITE template
        value = T();
    }
};

static void work(Meeting &meeting, long rounds)
{
    for (volatile long round = 0; round < rounds; round = round + 1) {
        meeting.wait(); // CALL method first
        meeting.wait(); // CALL method second
        {
            Section section(meeting);
            spin_us(10);
        } // CALL section first
        {
            Section section(meeting);
            spin_us(20);
        } // CALL section second
        Exchange<double> exchange(meeting);
        exchange.put(1.5); // CALL template first
        exchange.put(2.5); // CALL template second
    }
}

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 50);
    std::unique_ptr<Meeting> meeting = std::make_unique<Barrier>(3);
    std::vector<std::thread> team;
    for (int i = 0; i < 3; i++)
        team.emplace_back([&] { work(*meeting, rounds); });
    for (auto &thread : team)
        thread.join();
}
