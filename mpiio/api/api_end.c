/* The ends of the split collective data calls of MPI-IO. */
#include "mpiio/api/api.h"
#include "mpiio/api/call.h"

int PMPI_File_read_all_end(MPI_File fh, void *buf, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read_all_end(fh, buf, status);
	(void)buf;
	return kr_call_split_end(file, false, status);
}
KR_ALIAS(File_read_all_end);

int PMPI_File_read_at_all_end(MPI_File fh, void *buf, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_read_at_all_end(fh, buf, status);
	(void)buf;
	return kr_call_split_end(file, false, status);
}
KR_ALIAS(File_read_at_all_end);

int PMPI_File_write_all_end(MPI_File fh, const void *buf, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write_all_end(fh, buf, status);
	(void)buf;
	return kr_call_split_end(file, true, status);
}
KR_ALIAS(File_write_all_end);

int PMPI_File_write_at_all_end(MPI_File fh, const void *buf, MPI_Status *status)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_write_at_all_end(fh, buf, status);
	(void)buf;
	return kr_call_split_end(file, true, status);
}
KR_ALIAS(File_write_at_all_end);
