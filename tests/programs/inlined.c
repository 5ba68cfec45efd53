// A function that is called, and inlined besides; and one that is only called.
#include "common.h"

static volatile long cell;

long step(long x)
{
    cell += x;
    return x + cell;
}

static __attribute__((noinline)) long other(long x)
{
    return step(x);
}

static long (*volatile called)(long) = step;

int main(void)
{
    long sum = 0;
    for (long i = 0; i < 100; i++)
        sum += step(i);
    for (long i = 0; i < 5; i++)
        sum += other(i);
    for (long i = 0; i < 3; i++)
        sum += called(i);
    return sum == 0;
}
