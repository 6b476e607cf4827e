! Collective I/O from Fortran's oldest interface, mpif.h: fortran_mpif FILE. Rank r writes every N-th block of 1000 integers and reads the next rank's.
program fortran_mpif
  implicit none
  include 'mpif.h'
  integer, parameter :: blocks = 40, block = 1000
  integer :: ierr, rank, ranks, next, fh, one, filetype, i, n
  integer :: status(MPI_STATUS_SIZE)
  integer :: values(block * blocks)
  integer :: request, etype, got
  character(len=MPI_MAX_DATAREP_STRING) :: datarep
  integer(kind=MPI_OFFSET_KIND) :: displacement
  integer(kind=MPI_ADDRESS_KIND) :: lb, extent
  character(len=4096) :: path

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, path)
  call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, fh, ierr)
  if (ierr /= MPI_SUCCESS) call give_up('open')
  call MPI_Type_contiguous(block, MPI_INTEGER, one, ierr)
  lb = 0
  extent = 4_MPI_ADDRESS_KIND * block * ranks
  call MPI_Type_create_resized(one, lb, extent, filetype, ierr)
  call MPI_Type_commit(filetype, ierr)

  displacement = 4_MPI_OFFSET_KIND * block * rank
  call MPI_File_set_view(fh, displacement, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL, ierr)
  do i = 1, block * blocks
    values(i) = rank * 10000000 + i
  end do
  call MPI_File_write_all(fh, values, block * blocks, MPI_INTEGER, status, ierr)
  if (ierr /= MPI_SUCCESS) call give_up('write_all')
  call MPI_Get_count(status, MPI_INTEGER, n, ierr)
  if (n /= block * blocks) call give_up('count of write_all')

  call MPI_File_sync(fh, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_sync(fh, ierr)
  next = mod(rank + 1, ranks)
  displacement = 4_MPI_OFFSET_KIND * block * next
  call MPI_File_set_view(fh, displacement, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL, ierr)
  values = 0
  displacement = 0
  call MPI_File_read_at_all(fh, displacement, values, block * blocks, MPI_INTEGER, status, ierr)
  do i = 1, block * blocks
    if (values(i) /= next * 10000000 + i) call give_up('values')
  end do
  ! The same without a status, and not blocking; what the view is, and an error of which the file's handler lets us hear.
  call MPI_File_write_all(fh, values, block * blocks, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  if (ierr /= MPI_SUCCESS) call give_up('write_all without a status')
  call MPI_File_iread_at_all(fh, displacement, values, block * blocks, MPI_INTEGER, request, ierr)
  call MPI_Wait(request, status, ierr)
  call MPI_Get_count(status, MPI_INTEGER, n, ierr)
  if (n /= block * blocks .or. values(5) /= next * 10000000 + 5) call give_up('iread_at_all')
  call MPI_File_get_view(fh, displacement, etype, got, datarep, ierr)
  if (displacement /= 4_MPI_OFFSET_KIND * block * next .or. etype /= MPI_INTEGER .or. datarep /= 'native') call give_up('get_view')
  call MPI_Type_free(got, ierr)
  call MPI_File_write_at_all(fh, -1_MPI_OFFSET_KIND, values, 1, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  if (ierr == MPI_SUCCESS) call give_up('a negative offset')
  call MPI_File_close(fh, ierr)
  call MPI_Type_free(filetype, ierr)
  call MPI_Type_free(one, ierr)
  if (rank == 0) print '(a)', 'ok fortran mpif.h'
  call MPI_Finalize(ierr)

contains
  subroutine give_up(what)
    character(len=*), intent(in) :: what
    print '(a,a,a,i0)', 'FAILED: ', what, ' on rank ', rank
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine
end program
