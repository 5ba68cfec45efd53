// Ranks that meet at barriers of MPI: of all, of two halves, and in collectives.
#include <mpi.h>
#include "common.h"

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 50);
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm half, copy;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    int *all = calloc((size_t)size, sizeof *all);
    for (volatile long round = 0; round < rounds; round++) {
        sleep_us(rank == 1 ? 8000 : 200);
        MPI_Barrier(MPI_COMM_WORLD); // SITE world
        MPI_Barrier(half); // SITE half
        int mine = rank, sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, copy); // SITE reduce
        if (sum != size * (size - 1) / 2)
            abort();
        MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD); // SITE gather
        if (all[size - 1] != size - 1)
            abort();
    }
    MPI_Finalize();
    return 0;
}
