! A barrier inside of single.
! build: gfortran -O2 -g -fopenmp
! outcome: hung
! must: the threads of one team wait at different barriers
! never: no circle of waits
! never: not known
program single
  implicit none
  integer :: steps
  steps = 0
  !$omp parallel num_threads(3)
  !$omp single
  call meet(steps)
  !$omp end single
  !$omp end parallel
  print *, steps
contains
  subroutine meet(steps)
    integer, intent(inout) :: steps
    steps = steps + 1
    !$omp barrier
  end subroutine meet
end program single
