// A shared library that brings a runtime of OpenMP with it.
#include "common.h"

void plugin_run(long threads, long how_many)
{
    // Whoever watches has time to see that it has come.
    sleep_us(1000000);
#pragma omp parallel num_threads((int)threads)
    for (volatile long round = 0; round < how_many; round++) {
        sleep_us(500);
#pragma omp barrier // SITE omp plugin
    }
}
