/* See mpi_library.h. */
#include "mpiio/twophase/mpi_library.h"

#include <errno.h>
#include <stddef.h>

static struct kr_real table;

__attribute__((visibility("default"))) const char *kr_mpi_library_start(void *(*find)(const char *name))
{
#define KR_REAL_FIND(name) \
	table.name = (__typeof__(table.name))find("PMPI_" #name); \
	if (!table.name) \
		return "PMPI_" #name;
	KR_REAL_LIST(KR_REAL_FIND)
#undef KR_REAL_FIND
	return NULL;
}

const struct kr_real *kr_real(void)
{
	return &table;
}

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
