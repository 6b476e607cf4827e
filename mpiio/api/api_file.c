/* The calls of MPI-IO that concern the file and not its data.  MPI's own file gets all of them too, so that both agree.
 */
#include <errno.h>

#include "common/base/util.h"
#include "mpiio/api/api.h"
#include "mpiio/api/call.h"
#include "mpiio/twophase/mpi_library.h"
#include "mpiio/twophase/file.h"
#include "mpiio/schedule/hints_mpi.h"

int PMPI_File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh)
{
	int rc;

	if (fh)
		*fh = MPI_FILE_NULL; /* and so it stays where an error handler makes a success of a failure */
	rc = kr_real()->File_open(comm, filename, amode, info, fh);
	kr_file_attach(comm, filename, amode, info, rc == MPI_SUCCESS && fh ? *fh : MPI_FILE_NULL);
	return rc;
}

int PMPI_File_close(MPI_File *fh)
{
	struct kr_mpifile *file = fh ? kr_file_find(*fh) : NULL;
	int class = MPI_SUCCESS, rc;

	if (file) {
		class = kr_file_detach(file);
		kr_mpi_return(*fh, class); /* the error handler runs while the handle exists */
	}
	rc = kr_real()->File_close(fh);
	return class != MPI_SUCCESS ? class : rc;
}

int PMPI_File_set_info(MPI_File fh, MPI_Info info)
{
	struct kr_mpifile *file = kr_file_find(fh);
	int rc;

	if (file)
		kr_file_quiesce(file);
	rc = kr_real()->File_set_info(fh, info);
	if (!file)
		return rc;
	kr_info_read(info, &file->wanted);
	return kr_mpi_return(fh, kr_file_agree_hints(file));
}

int PMPI_File_get_info(MPI_File fh, MPI_Info *info_used)
{
	struct kr_mpifile *file = kr_file_find(fh);
	int rc = kr_real()->File_get_info(fh, info_used);
	struct kr_hints effective;

	if (file && rc == MPI_SUCCESS && kr_file_effective(file, &effective))
		kr_info_write(&effective, *info_used);
	return rc;
}

int PMPI_File_set_atomicity(MPI_File fh, int flag)
{
	struct kr_mpifile *file = kr_file_find(fh);
	int rc;

	if (file)
		kr_file_quiesce(file);
	rc = kr_real()->File_set_atomicity(fh, flag);
	if (!file || rc != MPI_SUCCESS || file->atomic == !!flag)
		return rc;
	if (!file->foreign) {
		if (flag)
			kr_file_give_pointer(file);
		else
			kr_file_take_pointer(file);
	}
	kr_write_order_unseen(file);
	file->atomic = flag;
	return rc;
}

int PMPI_File_sync(MPI_File fh)
{
	struct kr_mpifile *file = kr_file_find(fh);
	int class = MPI_SUCCESS, rc;

	if (file) {
		kr_file_quiesce(file);
		class = kr_file_agree(file, kr_mpi_class(kr_mount_sync(file->mount)));
	}
	rc = kr_real()->File_sync(fh);
	if (file && class == MPI_SUCCESS && rc == MPI_SUCCESS)
		kr_write_order_synced(file);
	return class != MPI_SUCCESS ? kr_mpi_return(fh, class) : rc;
}

/* Rank 0 truncates or extends; the next writes of other nodes' aggregators must come after that. */
int PMPI_File_set_size(MPI_File fh, MPI_Offset size)
{
	struct kr_mpifile *file = kr_file_find(fh);

	if (file) {
		kr_file_quiesce(file);
		kr_write_order_unseen(file);
	}
	return kr_real()->File_set_size(fh, size);
}

/* 0 or -errno, the same on all ranks: rank 0's, unless the arguments are wrong. */
static int make_room(struct kr_mpifile *file, MPI_Offset size)
{
	int mine = 0, all = 0;

	if (file->amode & MPI_MODE_RDONLY)
		mine = -EROFS;
	else if (size < 0)
		mine = -EINVAL;
	else if (file->rank == 0)
		mine = kr_mount_preallocate(file->mount, (uint64_t)size);
	return PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, file->comm) == MPI_SUCCESS ? all : -EIO;
}

/* The MPI library does this only if it must. ROMIO reads all of the file and writes it again; OMPIO of Open MPI 4.1
 * writes garbage. Not all ranks get errors. */
int PMPI_File_preallocate(MPI_File fh, MPI_Offset size)
{
	struct kr_mpifile *file = kr_file_find(fh);
	int err;

	if (!file)
		return kr_real()->File_preallocate(fh, size);
	kr_file_quiesce(file);
	kr_write_order_unseen(file);
	err = make_room(file, size);
	return err == -EOPNOTSUPP ? kr_real()->File_preallocate(fh, size) : kr_mpi_return(fh, kr_mpi_class(err));
}

/* ---- the individual pointer ---- */

/* The base of MPI_SEEK_END, in etypes of the view; the file's size is the same for MPI. */
static int end_of_view(struct kr_mpifile *file, uint64_t *ret_end)
{
	uint64_t size = 0;
	int err = kr_mount_size(file->mount, &size);

	*ret_end = kr_view_end(&file->shape.view, size);
	return kr_mpi_class(err);
}

/* MPI computes it when the layer cannot read the view. */
static int seek_by_mpi(struct kr_mpifile *file, MPI_Offset offset, int whence)
{
	int rc;

	kr_file_give_pointer(file);
	rc = kr_real()->File_seek(file->fh, offset, whence);
	kr_file_take_pointer(file);
	return rc;
}

static int seek(struct kr_mpifile *file, MPI_Offset offset, int whence)
{
	uint64_t base = 0;
	MPI_Offset position;
	int class = MPI_SUCCESS;

	if (file->shape.kind != KR_SHAPE_TILES)
		return seek_by_mpi(file, offset, whence);
	if (whence == MPI_SEEK_END)
		class = end_of_view(file, &base);
	else if (whence == MPI_SEEK_CUR)
		base = file->position;
	else if (whence != MPI_SEEK_SET)
		class = MPI_ERR_ARG;
	if (class != MPI_SUCCESS)
		return class;
	if (__builtin_add_overflow((MPI_Offset)base, offset, &position) || position < 0)
		return MPI_ERR_ARG;
	file->position = (uint64_t)position;
	return MPI_SUCCESS;
}

int PMPI_File_seek(MPI_File fh, MPI_Offset offset, int whence)
{
	struct kr_mpifile *file = kr_file_active(fh);
	int class;

	if (!file)
		return kr_real()->File_seek(fh, offset, whence);
	pthread_mutex_lock(&file->lock);
	class = seek(file, offset, whence);
	pthread_mutex_unlock(&file->lock);
	return kr_mpi_return(fh, class);
}

int PMPI_File_get_position(MPI_File fh, MPI_Offset *offset)
{
	struct kr_mpifile *file = kr_file_active(fh);

	if (!file)
		return kr_real()->File_get_position(fh, offset);
	KR_SCOPED_LOCK(&file->lock);
	*offset = (MPI_Offset)file->position;
	return MPI_SUCCESS;
}
