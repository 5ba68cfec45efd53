// One rank of MPI calls another function of the communicator than the others, and all wait for ever.
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, own = 1, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) {
        MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); // SITE sum
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD); // SITE meet
        MPI_Bcast(&all, 1, MPI_INT, 1, MPI_COMM_WORLD);
    }
    MPI_Recv(&all, 1, MPI_INT, (rank + 1) % 3, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
