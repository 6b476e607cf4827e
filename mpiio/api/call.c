/* See call.h. */
#include "mpiio/api/call.h"

#include "common/base/util.h"
#include "mpiio/twophase/collective.h"
#include "mpiio/twophase/independent.h"

int kr_mpi_return(MPI_File fh, int class)
{
	if (class != MPI_SUCCESS)
		PMPI_File_call_errhandler(fh, class);
	return class;
}

static int check_mode(const struct kr_mpifile *file, bool writing)
{
	if (writing && (file->amode & MPI_MODE_RDONLY))
		return MPI_ERR_READ_ONLY;
	if (!writing && (file->amode & MPI_MODE_WRONLY))
		return MPI_ERR_ACCESS;
	return MPI_SUCCESS;
}

int kr_call_access(struct kr_mpifile *file, const struct kr_call *call, struct kr_access *ret_access)
{
	MPI_Offset offset;
	int class;

	KR_SCOPED_LOCK(&file->lock);
	offset = call->individual ? (MPI_Offset)file->position : call->offset;
	class = kr_access_init(
		ret_access, call->writing, &file->shape, call->buffer, call->count, call->datatype, offset);
	if (class == MPI_SUCCESS)
		class = check_mode(file, call->writing);
	if (class == MPI_SUCCESS && call->individual)
		file->position += ret_access->count / file->shape.etype_size;
	return class;
}

void kr_call_status(MPI_Status *status, uint64_t bytes)
{
	if (status == MPI_STATUS_IGNORE)
		return;
	PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)bytes);
	PMPI_Status_set_cancelled(status, 0);
}

int kr_call_independent(struct kr_mpifile *file, const struct kr_call *call, MPI_Status *status)
{
	struct kr_access access;
	uint64_t done = 0;
	int class = kr_call_access(file, call, &access);

	if (class == MPI_SUCCESS)
		class = kr_independent_alone(file, &access, &done);
	kr_access_fini(&access);
	kr_call_status(status, done);
	return kr_mpi_return(file->fh, class);
}

static int collective(struct kr_mpifile *file, const struct kr_call *call, MPI_Status *status)
{
	struct kr_access access;
	uint64_t done = 0;
	int class;

	kr_file_quiesce(file);
	class = kr_call_access(file, call, &access);
	class = kr_collective_run(file, &access, class, &done);
	kr_access_fini(&access);
	kr_call_status(status, done);
	return class;
}

int kr_call_collective(struct kr_mpifile *file, const struct kr_call *call, MPI_Status *status)
{
	return kr_mpi_return(file->fh, collective(file, call, status));
}

int kr_call_split_begin(struct kr_mpifile *file, const struct kr_call *call)
{
	int class;

	if (file->split_active)
		return kr_mpi_return(file->fh, MPI_ERR_OTHER);
	class = collective(file, call, &file->split_status);
	file->split_active = class == MPI_SUCCESS;
	file->split_writing = call->writing;
	return kr_mpi_return(file->fh, class);
}

int kr_call_split_end(struct kr_mpifile *file, bool writing, MPI_Status *status)
{
	if (!file->split_active || file->split_writing != writing)
		return kr_mpi_return(file->fh, MPI_ERR_OTHER);
	file->split_active = false;
	if (status != MPI_STATUS_IGNORE)
		*status = file->split_status;
	return MPI_SUCCESS;
}
