// Ranks that meet at communicators which they have made in every way that MPI has. At each meeting
// one rank sleeps before it comes. The program prints, for each way, how many ranks each communicator
// has, and how often each rank of the world came last, by its own clock.
#include <mpi.h>
#include "common.h"

static int rank, size, comms, rounds;

// The ranks of a communicator tell its first one when they came; it notes who was the last.
static void note(MPI_Comm comm, uint64_t came_ns, int *last)
{
    int mine, ranks;
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &ranks);
    uint64_t told[2] = {came_ns, (uint64_t)rank}, *all = calloc((size_t)ranks, sizeof told);
    MPI_Gather(told, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, 0, comm);
    int late = 0;
    for (int i = 1; mine == 0 && i < ranks; i++)
        if (all[2 * i] > all[2 * late])
            late = i;
    if (mine == 0)
        last[all[2 * late + 1]]++;
    free(all);
}

// What all ranks have noted, printed by rank 0.
static void tell(const char *how, MPI_Comm comm, const int *last)
{
    int mine = -1, ranks = 0, *all = calloc((size_t)size, sizeof *all);
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_rank(comm, &mine);
        MPI_Comm_size(comm, &ranks);
    }
    int most, first = mine == 0, made;
    MPI_Reduce(last, all, size, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&ranks, &most, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&first, &made, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s %d %d", how, made, most);
        for (int i = 0; i < size; i++)
            printf(" %d", all[i]);
        printf("\n");
    }
    free(all);
}

// Meets in a communicator, if this rank is in it; `call` is the collective.
#define MEET(how, comm, call)                                                                      \
    do {                                                                                           \
        int *last = calloc((size_t)size, sizeof *last), mine = 0, ranks = 0;                       \
        if (comm != MPI_COMM_NULL) {                                                               \
            MPI_Comm_rank(comm, &mine);                                                            \
            MPI_Comm_size(comm, &ranks);                                                           \
        }                                                                                          \
        for (int round = 0; comm != MPI_COMM_NULL && round < rounds; round++) {                    \
            if (mine == (round + comms) % ranks)                                                   \
                sleep_us(4000);                                                                    \
            uint64_t came_ns = now_ns();                                                           \
            call;                                                                                  \
            note(comm, came_ns, last);                                                             \
        }                                                                                          \
        tell(how, comm, last);                                                                     \
        free(last);                                                                                \
        comms++;                                                                                   \
    } while (0)

int main(int argc, char **argv)
{
    rounds = (int)option(argc, argv, "rounds", 10);
    // Whoever attaches then has missed how the communicators were made.
    long pause_s = option(argc, argv, "pause", 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF, split, dup, nested, some, few, node, grid, row, line;
    MPI_Group all, group;
    int sum, lower[] = {0, 1}, range[1][3] = {{0, size - 2, 1}};
    int sides[2] = {2, size / 2}, periods[2] = {0, 0}, keeps[2] = {0, 1};

    MPI_Comm_split(world, rank % 2, -rank, &split);
    MPI_Comm_dup(world, &dup);
    if (pause_s > 0) {
        printf("ready\n");
        fflush(stdout);
        sleep_us(pause_s * 1000000);
    }
    MEET("world", world, MPI_Barrier(world)); // SITE world
    MEET("self", self, MPI_Barrier(self)); // SITE self
    MEET("split", split, MPI_Barrier(split)); // SITE split
    MEET("dup", dup, MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, dup)); // SITE dup
    // Not all ranks are in the parts.
    MPI_Comm_split(dup, rank == 0 ? MPI_UNDEFINED : rank / 2, rank, &nested);
    MEET("nested", nested, MPI_Barrier(nested)); // SITE nested
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 2, lower, &group);
    MPI_Comm_create(world, group, &some);
    MEET("create", some, MPI_Barrier(some)); // SITE create
    MPI_Group_free(&group);
    MPI_Group_range_incl(all, 1, range, &group);
    few = MPI_COMM_NULL;
    if (rank <= size - 2)
        MPI_Comm_create_group(world, group, 7, &few);
    MEET("group", few, MPI_Barrier(few)); // SITE group
    MPI_Comm_split_type(split, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MEET("type", node, MPI_Barrier(node)); // SITE type
    MPI_Cart_create(world, 2, sides, periods, 0, &grid);
    MEET("grid", grid, MPI_Barrier(grid)); // SITE grid
    row = MPI_COMM_NULL;
    if (grid != MPI_COMM_NULL)
        MPI_Cart_sub(grid, keeps, &row);
    MEET("row", row, MPI_Barrier(row)); // SITE row
    // A freed communicator's handle may be given to another one.
    for (int i = 0; i < 5; i++) {
        MPI_Comm_split(world, (rank + i) % 2, rank, &line);
        MEET("again", line, MPI_Barrier(line)); // SITE again
        MPI_Comm_free(&line);
    }
    MPI_Finalize();
    return 0;
}
