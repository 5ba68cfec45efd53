// A library to be loaded before MPI's: it counts the collectives that a program
// calls, and says how many there were.
#include <mpi.h>
#include <stdio.h>

static long calls;

#define COUNTED(name, parameters, arguments)                                               \
    int MPI_##name parameters                                                              \
    {                                                                                      \
        calls++;                                                                           \
        return PMPI_##name arguments;                                                      \
    }

typedef const void *In;
typedef const int *List;
typedef MPI_Datatype Type;

COUNTED(Barrier, (MPI_Comm c), (c))
COUNTED(Allreduce, (In a, void *b, int n, Type t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
COUNTED(Allgather, (In a, int n, Type t, void *b, int m, Type u, MPI_Comm c), (a, n, t, b, m, u, c))
COUNTED(Allgatherv, (In a, int n, Type t, void *b, List m, List d, Type u, MPI_Comm c),
        (a, n, t, b, m, d, u, c))
COUNTED(Alltoall, (In a, int n, Type t, void *b, int m, Type u, MPI_Comm c), (a, n, t, b, m, u, c))
COUNTED(Alltoallv, (In a, List n, List e, Type t, void *b, List m, List d, Type u, MPI_Comm c),
        (a, n, e, t, b, m, d, u, c))
COUNTED(Reduce_scatter, (In a, void *b, List n, Type t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))

int MPI_Finalize(void)
{
    fprintf(stderr, "collectives %ld\n", calls);
    return PMPI_Finalize();
}
