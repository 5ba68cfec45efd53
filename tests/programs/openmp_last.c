// Parallel regions that end with a barrier of their own: an optimising compiler makes a jump of its
// call, so the barrier returns into the runtime of OpenMP.
#include "common.h"

static volatile long cells, faces;

__attribute__((noinline)) static void read_cells(void)
{
#pragma omp parallel num_threads(3)
    {
#pragma omp atomic
        cells++;
#pragma omp barrier // SITE cells
    }
    faces = 0;
}

__attribute__((noinline)) static void read_faces(void)
{
#pragma omp parallel num_threads(3)
    {
#pragma omp atomic
        faces++;
#pragma omp barrier // SITE faces
    }
    cells = 0;
}

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 50);
    for (long round = 0; round < rounds; round++) {
        read_cells();
        read_faces();
    }
    return 0;
}
