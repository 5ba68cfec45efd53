! A triangular loop in Fortran with the static schedule.
!
! build: gfortran -fopenmp
! run: OMP_NUM_THREADS=2
! must: static imbalance at 
! must: heat.f90:
! must: T1 
! never: serial part
program heat
  implicit none
  integer :: step, row
  real(8) :: total
  total = 0
  do step = 1, 30
    !$omp parallel do schedule(static) reduction(+:total)
    do row = 1, 64
      total = total + relax(30000 * row)
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
