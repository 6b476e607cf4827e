/* Writes by the shared file pointer are MPI's own.  We only take note that somebody wrote past the aggregators. */
#include "mpiio/api.h"
#include "mpiio/file.h"

static void note_write(MPI_File fh)
{
	struct kr_mpifile *file = kr_file_find(fh);

	if (file)
		kr_turn_unseen(file);
}

int PMPI_File_write_shared(MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	note_write(fh);
	return kr_real()->File_write_shared(fh, buf, count, datatype, status);
}
KR_ALIAS(File_write_shared);

int PMPI_File_iwrite_shared(MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request)
{
	note_write(fh);
	return kr_real()->File_iwrite_shared(fh, buf, count, datatype, request);
}
KR_ALIAS(File_iwrite_shared);

int PMPI_File_write_ordered(MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status)
{
	note_write(fh);
	return kr_real()->File_write_ordered(fh, buf, count, datatype, status);
}
KR_ALIAS(File_write_ordered);

int PMPI_File_write_ordered_begin(MPI_File fh, const void *buf, int count, MPI_Datatype datatype)
{
	note_write(fh);
	return kr_real()->File_write_ordered_begin(fh, buf, count, datatype);
}
KR_ALIAS(File_write_ordered_begin);
