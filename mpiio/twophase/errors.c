/* See errors.h. */
#include "mpiio/twophase/errors.h"

#include <errno.h>

int kr_mpi_class(int err)
{
	switch (err >= 0 ? 0 : -err) {
	case 0:
		return MPI_SUCCESS;
	case ENOSPC:
		return MPI_ERR_NO_SPACE;
	case EDQUOT:
		return MPI_ERR_QUOTA;
	case EROFS:
		return MPI_ERR_READ_ONLY;
	case EACCES:
	case EPERM:
		return MPI_ERR_ACCESS;
	case ENOENT:
		return MPI_ERR_NO_SUCH_FILE;
	case ENOMEM:
		return MPI_ERR_NO_MEM;
	case EINVAL:
		return MPI_ERR_ARG;
	default:
		return MPI_ERR_IO;
	}
}
