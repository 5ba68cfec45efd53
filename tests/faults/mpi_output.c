// Rank 0 waits for its output in every step.
//
// build: mpicc.openmpi
// run: mpirun -n 2
// must: asleep before main mpi_output.c:
// must: 0.0 
// never: serial start
// never: static imbalance
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
        work(1000000);
        if (rank == 0)
            usleep(8000); // the file system
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
