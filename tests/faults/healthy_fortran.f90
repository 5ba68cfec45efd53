! Even loops in Fortran.
!
! build: gfortran -fopenmp
! run: OMP_NUM_THREADS=2
! healthy
! never: imbalance
! never: serial
! never: asleep
! never: more threads than CPUs
program even
  implicit none
  integer :: step, row
  real(8) :: total
  total = 0
  do step = 1, 30
    !$omp parallel do schedule(static) reduction(+:total)
    do row = 1, 64
      total = total + relax(500000)
    end do
    !$omp end parallel do
  end do
  print *, total
contains
  real(8) function relax(cells)
    integer, intent(in) :: cells
    integer :: cell
    relax = 0
    do cell = 1, cells
      relax = relax + 1.0d0 / cell
    end do
  end function
end program
