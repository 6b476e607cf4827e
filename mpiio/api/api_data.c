/* The blocking data calls of MPI-IO at explicit offsets and at the individual pointer.  Other files go to the MPI
 * library untouched.  Compiled for both kinds of counts (api.h). */
#include "mpiio/api/api.h"
#include "mpiio/api/call.h"

int KR_PMPI(File_read)(MPI_File fh, void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_read)(fh, buf, count, datatype, status);
	return kr_call_independent(file, READ(POINTER), status);
}
KR_ALIAS_COUNTED(File_read);

int KR_PMPI(File_read_all)(MPI_File fh, void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_read_all)(fh, buf, count, datatype, status);
	return kr_call_collective(file, READ(POINTER), status);
}
KR_ALIAS_COUNTED(File_read_all);

int KR_PMPI(File_read_at)(
	MPI_File fh, MPI_Offset offset, void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_read_at)(fh, offset, buf, count, datatype, status);
	return kr_call_independent(file, READ(AT), status);
}
KR_ALIAS_COUNTED(File_read_at);

int KR_PMPI(File_read_at_all)(
	MPI_File fh, MPI_Offset offset, void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_read_at_all)(fh, offset, buf, count, datatype, status);
	return kr_call_collective(file, READ(AT), status);
}
KR_ALIAS_COUNTED(File_read_at_all);

int KR_PMPI(File_write)(MPI_File fh, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_write)(fh, buf, count, datatype, status);
	return kr_call_independent(file, WRITE(POINTER), status);
}
KR_ALIAS_COUNTED(File_write);

int KR_PMPI(File_write_all)(MPI_File fh, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_write_all)(fh, buf, count, datatype, status);
	return kr_call_collective(file, WRITE(POINTER), status);
}
KR_ALIAS_COUNTED(File_write_all);

int KR_PMPI(File_write_at)(
	MPI_File fh, MPI_Offset offset, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_write_at)(fh, offset, buf, count, datatype, status);
	return kr_call_independent(file, WRITE(AT), status);
}
KR_ALIAS_COUNTED(File_write_at);

int KR_PMPI(File_write_at_all)(
	MPI_File fh, MPI_Offset offset, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_write_at_all)(fh, offset, buf, count, datatype, status);
	return kr_call_collective(file, WRITE(AT), status);
}
KR_ALIAS_COUNTED(File_write_at_all);
