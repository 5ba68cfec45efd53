# Ranks that meet in the world, in halves of it, and in a copy of each half.
from mpi4py import MPI

world = MPI.COMM_WORLD
half = world.Split(world.rank % 2, world.rank)
copy = half.Dup()
for _ in range(50):
    world.Barrier()
    half.Barrier()
    copy.Barrier()
