/* Writes by the shared file pointer are MPI's own.  The layer only records that a rank wrote without the aggregators.
 * Compiled for both kinds of counts (api.h). */
#include "mpiio/api/api.h"
#include "mpiio/twophase/file.h"

static void note_write(MPI_File fh)
{
	struct kr_mpifile *file = kr_file_find(fh);

	if (file)
		kr_write_order_unseen(file);
}

int KR_PMPI(File_write_shared)(MPI_File fh, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	note_write(fh);
	return KR_REAL(File_write_shared)(fh, buf, count, datatype, status);
}
KR_ALIAS_COUNTED(File_write_shared);

int KR_PMPI(File_iwrite_shared)(
	MPI_File fh, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Request *request)
{
	note_write(fh);
	return KR_REAL(File_iwrite_shared)(fh, buf, count, datatype, request);
}
KR_ALIAS_COUNTED(File_iwrite_shared);

int KR_PMPI(File_write_ordered)(MPI_File fh, const void *buf, kr_count count, MPI_Datatype datatype, MPI_Status *status)
{
	note_write(fh);
	return KR_REAL(File_write_ordered)(fh, buf, count, datatype, status);
}
KR_ALIAS_COUNTED(File_write_ordered);

int KR_PMPI(File_write_ordered_begin)(MPI_File fh, const void *buf, kr_count count, MPI_Datatype datatype)
{
	note_write(fh);
	return KR_REAL(File_write_ordered_begin)(fh, buf, count, datatype);
}
KR_ALIAS_COUNTED(File_write_ordered_begin);
