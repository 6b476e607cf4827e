// See other_mpi.h.
#include "other_mpi.h"

#include <string.h>

#define PMPI(name) extern __typeof__(MPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)))

int MPI_Get_version(int *version, int *subversion);
int MPI_Get_version(int *version, int *subversion)
{
	*version = 3;
	*subversion = 1;
	return 0;
}
PMPI(Get_version);

int MPI_File_open(int64_t comm, const char *filename, int amode, short info, int64_t *fh)
{
	if (comm != INT64_C(-0x123456789abc) || strcmp(filename, "file") || amode != -3 || info != -4)
		return 1;
	*fh = INT64_C(0x7edcba9876543210);
	return 0;
}
PMPI(File_open);

int MPI_File_write_at_all(
	int64_t fh, int64_t offset, const void *buf, int count, unsigned char datatype, OTHER_Status *status)
{
	if (fh != INT64_C(0x7edcba9876543210) || offset != -(INT64_C(1) << 62) || buf != status || datatype != 0xfe)
		return 2;
	status->count = count;
	return -7;
}
PMPI(File_write_at_all);

int MPI_File_close(int64_t *fh)
{
	*fh = 0;
	return 0;
}
PMPI(File_close);
