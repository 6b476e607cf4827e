/* The blocking data calls of MPI-IO at explicit offsets and at the individual pointer.  Files that are not ours go to the MPI
 * library untouched. */
#include "mpiio/api.h"
#include "mpiio/call.h"

/* What the six kinds of arguments mean. */
#define WRITE(...) (&(struct kr_call){.writing = true, .buffer = (void *)(uintptr_t)buf, .count = count, .datatype = datatype, __VA_ARGS__})
#define READ(...) (&(struct kr_call){.buffer = buf, .count = count, .datatype = datatype, __VA_ARGS__})
#define AT .offset = offset
#define POINTER .individual = true

int PMPI_File_read(MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read(fh, buf, count, datatype, status);
	return kr_call_independent(file, READ(POINTER), status);
}
KR_ALIAS(File_read);

int PMPI_File_read_all(MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read_all(fh, buf, count, datatype, status);
	return kr_call_collective(file, READ(POINTER), status);
}
KR_ALIAS(File_read_all);

int PMPI_File_read_at(MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read_at(fh, offset, buf, count, datatype, status);
	return kr_call_independent(file, READ(AT), status);
}
KR_ALIAS(File_read_at);

int PMPI_File_read_at_all(MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read_at_all(fh, offset, buf, count, datatype, status);
	return kr_call_collective(file, READ(AT), status);
}
KR_ALIAS(File_read_at_all);

int PMPI_File_write(MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write(fh, buf, count, datatype, status);
	return kr_call_independent(file, WRITE(POINTER), status);
}
KR_ALIAS(File_write);

int PMPI_File_write_all(MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write_all(fh, buf, count, datatype, status);
	return kr_call_collective(file, WRITE(POINTER), status);
}
KR_ALIAS(File_write_all);

int PMPI_File_write_at(MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write_at(fh, offset, buf, count, datatype, status);
	return kr_call_independent(file, WRITE(AT), status);
}
KR_ALIAS(File_write_at);

int PMPI_File_write_at_all(MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write_at_all(fh, offset, buf, count, datatype, status);
	return kr_call_collective(file, WRITE(AT), status);
}
KR_ALIAS(File_write_at_all);
