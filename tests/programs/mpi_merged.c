// Ranks that meet 50 times at a communicator which two groups have made of what lies between them, and
// end a second later.
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Comm half, between, merged;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int upper = rank >= size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : size / 2, 1, &between);
    MPI_Intercomm_merge(between, upper, &merged);
    for (int round = 0; round < 50; round++)
        MPI_Barrier(merged); // SITE merged
    sleep(1);
    MPI_Finalize();
}
