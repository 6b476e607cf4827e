/* The non-blocking data calls of MPI-IO, and the beginnings of the split collective ones.  Other files go to the MPI
 * library untouched.  Compiled for both kinds of counts (api.h). */
#include "mpiio/api/api.h"
#include "mpiio/api/call.h"

int KR_PMPI(File_iread)(MPI_File fh, void *buf, kr_count count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_iread)(fh, buf, count, datatype, request);
	return kr_call_start_independent(file, READ(POINTER), request);
}
KR_ALIAS_COUNTED(File_iread);

int KR_PMPI(File_iread_all)(MPI_File fh, void *buf, kr_count count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_iread_all)(fh, buf, count, datatype, request);
	return kr_call_start_collective(file, READ(POINTER), request);
}
KR_ALIAS_COUNTED(File_iread_all);

int KR_PMPI(File_iread_at)(
	MPI_File fh, MPI_Offset offset, void *buf, kr_count count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_iread_at)(fh, offset, buf, count, datatype, request);
	return kr_call_start_independent(file, READ(AT), request);
}
KR_ALIAS_COUNTED(File_iread_at);

int KR_PMPI(File_iread_at_all)(
	MPI_File fh, MPI_Offset offset, void *buf, kr_count count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_iread_at_all)(fh, offset, buf, count, datatype, request);
	return kr_call_start_collective(file, READ(AT), request);
}
KR_ALIAS_COUNTED(File_iread_at_all);

int KR_PMPI(File_read_all_begin)(MPI_File fh, void *buf, kr_count count, MPI_Datatype datatype)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_read_all_begin)(fh, buf, count, datatype);
	return kr_call_split_begin(file, READ(POINTER));
}
KR_ALIAS_COUNTED(File_read_all_begin);

int KR_PMPI(File_read_at_all_begin)(MPI_File fh, MPI_Offset offset, void *buf, kr_count count, MPI_Datatype datatype)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_read_at_all_begin)(fh, offset, buf, count, datatype);
	return kr_call_split_begin(file, READ(AT));
}
KR_ALIAS_COUNTED(File_read_at_all_begin);

int KR_PMPI(File_iwrite)(MPI_File fh, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_iwrite)(fh, buf, count, datatype, request);
	return kr_call_start_independent(file, WRITE(POINTER), request);
}
KR_ALIAS_COUNTED(File_iwrite);

int KR_PMPI(File_iwrite_all)(MPI_File fh, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_iwrite_all)(fh, buf, count, datatype, request);
	return kr_call_start_collective(file, WRITE(POINTER), request);
}
KR_ALIAS_COUNTED(File_iwrite_all);

int KR_PMPI(File_iwrite_at)(
	MPI_File fh, MPI_Offset offset, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_iwrite_at)(fh, offset, buf, count, datatype, request);
	return kr_call_start_independent(file, WRITE(AT), request);
}
KR_ALIAS_COUNTED(File_iwrite_at);

int KR_PMPI(File_iwrite_at_all)(
	MPI_File fh, MPI_Offset offset, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_iwrite_at_all)(fh, offset, buf, count, datatype, request);
	return kr_call_start_collective(file, WRITE(AT), request);
}
KR_ALIAS_COUNTED(File_iwrite_at_all);

int KR_PMPI(File_write_all_begin)(MPI_File fh, const void *buf, kr_count count, MPI_Datatype datatype)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_write_all_begin)(fh, buf, count, datatype);
	return kr_call_split_begin(file, WRITE(POINTER));
}
KR_ALIAS_COUNTED(File_write_all_begin);

int KR_PMPI(File_write_at_all_begin)(
	MPI_File fh, MPI_Offset offset, const void *buf, kr_count count, MPI_Datatype datatype)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return KR_REAL(File_write_at_all_begin)(fh, offset, buf, count, datatype);
	return kr_call_split_begin(file, WRITE(AT));
}
KR_ALIAS_COUNTED(File_write_at_all_begin);
