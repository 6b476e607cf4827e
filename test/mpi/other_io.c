// MPI-IO by another MPI library, which must get what the program has passed, and the program what it returns.
#include <stdio.h>

#include "other_mpi.h"

int run(int argc, char **argv);

int run(int argc, char **argv)
{
	OTHER_Status status = {0};
	int64_t fh = 0;
	(void)argc, (void)argv;
	if (MPI_File_open(INT64_C(-0x123456789abc), "file", -3, -4, &fh))
		return 1;
	if (MPI_File_write_at_all(fh, -(INT64_C(1) << 62), &status, -5, 0xfe, &status) != -7 || status.count != -5)
		return 2;
	if (MPI_File_close(&fh) || fh)
		return 3;
	printf("ok other_io\n");
	return 0;
}

#ifdef PROGRAM
int main(int argc, char **argv)
{
	return run(argc, argv);
}
#endif
