/* The non-blocking and the split collective data calls of MPI-IO.  Files that are not ours go to the MPI library untouched. */
#include "mpiio/api.h"
#include "mpiio/call.h"

/* What the six kinds of arguments mean. */
#define WRITE(...) (&(struct kr_call){.writing = true, .buffer = (void *)(uintptr_t)buf, .count = count, .datatype = datatype, __VA_ARGS__})
#define READ(...) (&(struct kr_call){.buffer = buf, .count = count, .datatype = datatype, __VA_ARGS__})
#define AT .offset = offset
#define POINTER .individual = true

int PMPI_File_iread(MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_iread(fh, buf, count, datatype, request);
	return kr_call_start_independent(file, READ(POINTER), request);
}
KR_ALIAS(File_iread);

int PMPI_File_iread_all(MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_iread_all(fh, buf, count, datatype, request);
	return kr_call_start_collective(file, READ(POINTER), request);
}
KR_ALIAS(File_iread_all);

int PMPI_File_iread_at(MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_iread_at(fh, offset, buf, count, datatype, request);
	return kr_call_start_independent(file, READ(AT), request);
}
KR_ALIAS(File_iread_at);

int PMPI_File_iread_at_all(MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_iread_at_all(fh, offset, buf, count, datatype, request);
	return kr_call_start_collective(file, READ(AT), request);
}
KR_ALIAS(File_iread_at_all);

int PMPI_File_read_all_begin(MPI_File fh, void *buf, int count, MPI_Datatype datatype)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read_all_begin(fh, buf, count, datatype);
	return kr_call_split_begin(file, READ(POINTER));
}
KR_ALIAS(File_read_all_begin);

int PMPI_File_read_all_end(MPI_File fh, void *buf, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read_all_end(fh, buf, status);
	(void)buf;
	return kr_call_split_end(file, false, status);
}
KR_ALIAS(File_read_all_end);

int PMPI_File_read_at_all_begin(MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read_at_all_begin(fh, offset, buf, count, datatype);
	return kr_call_split_begin(file, READ(AT));
}
KR_ALIAS(File_read_at_all_begin);

int PMPI_File_read_at_all_end(MPI_File fh, void *buf, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read_at_all_end(fh, buf, status);
	(void)buf;
	return kr_call_split_end(file, false, status);
}
KR_ALIAS(File_read_at_all_end);

int PMPI_File_iwrite(MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_iwrite(fh, buf, count, datatype, request);
	return kr_call_start_independent(file, WRITE(POINTER), request);
}
KR_ALIAS(File_iwrite);

int PMPI_File_iwrite_all(MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_iwrite_all(fh, buf, count, datatype, request);
	return kr_call_start_collective(file, WRITE(POINTER), request);
}
KR_ALIAS(File_iwrite_all);

int PMPI_File_iwrite_at(MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_iwrite_at(fh, offset, buf, count, datatype, request);
	return kr_call_start_independent(file, WRITE(AT), request);
}
KR_ALIAS(File_iwrite_at);

int PMPI_File_iwrite_at_all(MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_iwrite_at_all(fh, offset, buf, count, datatype, request);
	return kr_call_start_collective(file, WRITE(AT), request);
}
KR_ALIAS(File_iwrite_at_all);

int PMPI_File_write_all_begin(MPI_File fh, const void *buf, int count, MPI_Datatype datatype)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write_all_begin(fh, buf, count, datatype);
	return kr_call_split_begin(file, WRITE(POINTER));
}
KR_ALIAS(File_write_all_begin);

int PMPI_File_write_all_end(MPI_File fh, const void *buf, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write_all_end(fh, buf, status);
	(void)buf;
	return kr_call_split_end(file, true, status);
}
KR_ALIAS(File_write_all_end);

int PMPI_File_write_at_all_begin(MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write_at_all_begin(fh, offset, buf, count, datatype);
	return kr_call_split_begin(file, WRITE(AT));
}
KR_ALIAS(File_write_at_all_begin);

int PMPI_File_write_at_all_end(MPI_File fh, const void *buf, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write_at_all_end(fh, buf, status);
	(void)buf;
	return kr_call_split_end(file, true, status);
}
KR_ALIAS(File_write_at_all_end);
