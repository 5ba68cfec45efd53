// Rank 0 works for 3 ms before it sends to all others, by a broadcast or by messages; they work for 1 ms.
#include <mpi.h>
#include "common.h"

int main(int argc, char **argv)
{
    int rank, size, way = argc > 1 && !strcmp(argv[1], "recv");
    double data[100] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 1000; round++) {
        spin_us(rank ? 1000 : 3000);
        if (!way)
            MPI_Bcast(data, 100, MPI_DOUBLE, 0, MPI_COMM_WORLD); // SITE bcast
        else if (rank)
            MPI_Recv(data, 100, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // SITE recv
        else
            for (int other = 1; other < size; other++)
                MPI_Send(data, 100, MPI_DOUBLE, other, 1, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
