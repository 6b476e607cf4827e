// An MPI library of another binary interface, as far as the tests need one: handles are neither Open MPI's nor MPICH's.
#pragma once

#include <stdint.h>

typedef struct {
	int64_t count;
} OTHER_Status;

int MPI_File_open(int64_t comm, const char *filename, int amode, short info, int64_t *fh);
int MPI_File_write_at_all(
	int64_t fh, int64_t offset, const void *buf, int count, unsigned char datatype, OTHER_Status *status);
int MPI_File_close(int64_t *fh);
