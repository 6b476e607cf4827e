/* See mpi_library.h. */
#include "mpiio/twophase/mpi_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct kr_real table;

static void *find(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (function)
		return function;
	fprintf(stderr,
		"libkairan-mpiio: %s is in no MPI library behind this one (is it linked after MPI, or built for "
		"another MPI?)\n",
		name);
	abort();
}

static void load(void)
{
#define KR_REAL_LOAD(name) table.name = (__typeof__(table.name))find("PMPI_" #name);
	KR_REAL_LIST(KR_REAL_LOAD)
#undef KR_REAL_LOAD
}

const struct kr_real *kr_real(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
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
