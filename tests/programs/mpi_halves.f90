! Ranks that meet in the world, in halves of it, and in a copy of each half.
program halves
  use mpi
  implicit none
  integer :: error, rank, round, half, copy, total
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, error)
  call MPI_Comm_dup(half, copy, error)
  do round = 1, 50
    call MPI_Barrier(MPI_COMM_WORLD, error)
    call MPI_Barrier(half, error)
    call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, copy, error)
  end do
  call MPI_Finalize(error)
end program
