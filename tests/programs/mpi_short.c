// Ranks that make communicators of half of them, use them once and free them: each lies where
// the last one lay, has its number, and others in it. Some have names of the program's own.
#include <mpi.h>
#include "common.h"

int main(int argc, char **argv)
{
    long rounds = option(argc, argv, "rounds", 50);
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD); // SITE world
    // By the first one it is learned where such things stand.
    sleep_us(300000);
    for (volatile long round = 0; round < rounds; round++) {
        MPI_Comm some;
        MPI_Comm_split(MPI_COMM_WORLD, round % 2 ? rank / 2 : rank % 2, rank, &some);
        if (round % 3 == 0)
            MPI_Comm_set_name(some, "of the rows");
        MPI_Barrier(some); // SITE some
        MPI_Comm_free(&some);
    }
    MPI_Finalize();
    return 0;
}
