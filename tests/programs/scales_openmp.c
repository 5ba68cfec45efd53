// As many threads as OMP_NUM_THREADS says meet in each round.
#include <omp.h>

#include "common.h"

int main(void)
{
    for (int round = 0; round < 20; round++) {
#pragma omp parallel
        {
            sleep_us(4000 / omp_get_num_threads());
#pragma omp barrier // SITE meet
            sleep_us(100);
        }
    }
    return 0;
}
