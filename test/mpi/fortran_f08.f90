! Collective I/O from Fortran's newest interface, mpi_f08: fortran_f08 FILE. A grid of doubles, dealt out in columns by a subarray view.
program fortran_f08
  use mpi_f08
  implicit none
  integer, parameter :: rows = 120, width = 30
  integer :: rank, ranks, next, i, j, n
  type(MPI_File) :: fh
  type(MPI_Datatype) :: filetype
  type(MPI_Status) :: status
  integer(kind=MPI_OFFSET_KIND) :: zero = 0
  double precision :: values(rows, width)
  character(len=4096) :: path
  type(MPI_Request) :: request
  type(MPI_Datatype) :: etype, got
  character(len=MPI_MAX_DATAREP_STRING) :: datarep
  integer(kind=MPI_OFFSET_KIND) :: position

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, path)
  call MPI_File_open(MPI_COMM_WORLD, trim(path), ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, fh)
  call set_view(rank)
  do j = 1, width
    do i = 1, rows
      values(i, j) = cell(rank, i, j)
    end do
  end do
  call MPI_File_write_at_all(fh, zero, values, rows * width, MPI_DOUBLE_PRECISION, status)
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n)
  if (n /= rows * width) call give_up('count of write_at_all')
  call MPI_File_sync(fh)
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_File_sync(fh)
  next = mod(rank + 1, ranks)
  call set_view(next)
  values = 0
  call MPI_File_read_all(fh, values, rows * width, MPI_DOUBLE_PRECISION, status)
  do j = 1, width
    do i = 1, rows
      if (values(i, j) /= cell(next, i, j)) call give_up('values')
    end do
  end do
  ! The same without a status, not blocking, and split; what the view is.
  call MPI_File_seek(fh, zero, MPI_SEEK_SET)
  call MPI_File_iwrite_all(fh, values, rows * width, MPI_DOUBLE_PRECISION, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_File_get_position(fh, position)
  if (position /= rows * width) call give_up('position')
  values = 0
  call MPI_File_read_at_all_begin(fh, zero, values, rows * width, MPI_DOUBLE_PRECISION)
  call MPI_File_read_at_all_end(fh, values, MPI_STATUS_IGNORE)
  if (values(2, 3) /= cell(next, 2, 3)) call give_up('values read in two steps')
  call MPI_File_read_at_all(fh, zero, values(1:rows:2, 1:2), rows, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE)
  if (values(3, 1) /= cell(next, 2, 1)) call give_up('values in every second row')
  call MPI_File_get_view(fh, position, etype, got, datarep)
  if (position /= 0 .or. etype /= MPI_DOUBLE_PRECISION .or. datarep /= 'native') call give_up('get_view')
  call MPI_Type_size(got, n)
  if (n /= rows * width * 8) call give_up('size of the filetype')
  call MPI_Type_free(got)
  call MPI_File_close(fh)
  if (rank == 0) print '(a)', 'ok fortran mpi_f08'
  call MPI_Finalize()

contains
  ! The rows are dealt out in turns of whole bands: rank r has rows r * rows + 1 and on of every column.
  subroutine set_view(owner)
    integer, intent(in) :: owner
    call MPI_Type_create_subarray(2, [rows * ranks, width], [rows, width], [rows * owner, 0], MPI_ORDER_FORTRAN, &
      MPI_DOUBLE_PRECISION, filetype)
    call MPI_Type_commit(filetype)
    call MPI_File_set_view(fh, zero, MPI_DOUBLE_PRECISION, filetype, 'native', MPI_INFO_NULL)
    call MPI_Type_free(filetype)
  end subroutine

  double precision function cell(owner, i, j)
    integer, intent(in) :: owner, i, j
    cell = owner * 1d6 + i * 1d3 + j
  end function

  subroutine give_up(what)
    character(len=*), intent(in) :: what
    print '(a,a,a,i0)', 'FAILED: ', what, ' on rank ', rank
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine
end program
