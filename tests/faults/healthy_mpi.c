// Even ranks in a short job: most of it is the start of the ranks, which is no fault of theirs.
//
// build: mpicc.openmpi
// run: mpirun -n 2
// healthy
// never: imbalance
// never: serial
// never: asleep
// never: more threads than CPUs
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
static volatile double sink;
static void work(long cells) { double s = 0; for (long c = 1; c <= cells; c++) s += 1.0 / (double)c; sink = s; }
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < 60; step++) {
        work(8000000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
