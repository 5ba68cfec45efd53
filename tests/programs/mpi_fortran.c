// What a compiler makes of a Fortran program: ranks that call the barrier of MPI's
// library for Fortran, which calls that for C.
#include <mpi.h>
#include "common.h"

extern void mpi_barrier_(const int *communicator, int *error);

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 50);
    int error, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int world = MPI_Comm_c2f(MPI_COMM_WORLD);
    for (volatile long round = 0; round < rounds; round++) {
        mpi_barrier_(&world, &error); // SITE first
        sleep_us(2000 * rank);
        mpi_barrier_(&world, &error); // SITE second
    }
    MPI_Finalize();
    return 0;
}
