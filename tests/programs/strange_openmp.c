// An OpenMP runtime as nobody has made one.
#include "common.h"

void GOMP_barrier(void)
{
}

int main(void)
{
    GOMP_barrier();
    return 0;
}
