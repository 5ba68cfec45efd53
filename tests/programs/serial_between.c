// Six parallel regions of even work; between the third and the fourth one thread works alone, for as long as
// three regions take.
#include "common.h"

int main(void)
{
    for (int round = 0; round < 6; round++) {
#pragma omp parallel
        spin_us(20000);
        if (round == 2)
            spin_us(60000);
    }
    return 0;
}
