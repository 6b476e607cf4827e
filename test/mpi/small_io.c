// The least that a program does with MPI-IO: small_io DIR layer|own
//
// Every rank writes its bytes collectively and reads the next one's. "layer": kairan's layer must have the file, "own":
// the MPI library itself.
#include <stdio.h>
#include <string.h>

#include "kt.h"

int run(int argc, char **argv);

int run(int argc, char **argv)
{
	enum { BYTES = 5000 };
	unsigned char out[BYTES], expected[BYTES], in[BYTES];
	MPI_File file;
	kt_init(&argc, &argv);
	KT_CHECK(argc == 3, "small_io DIR layer|own");
	int next = (kt_rank + 1) % kt_size;
	kt_fill(out, BYTES, (uint64_t)kt_rank);
	kt_fill(expected, BYTES, (uint64_t)next);
	KT_OK(MPI_File_open(
		MPI_COMM_WORLD, kt_path(argv[1], "small"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	KT_CHECK(kt_is_layers(file) == !strcmp(argv[2], "layer"), "the file is not handled by: %s", argv[2]);
	KT_OK(MPI_File_write_at_all(file, BYTES * kt_rank, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_sync(file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_sync(file));
	KT_OK(MPI_File_read_at_all(file, BYTES * next, in, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
	kt_same_bytes(in, expected, BYTES, "the next rank's bytes");
	KT_OK(MPI_File_close(&file));
	if (!kt_rank)
		printf("ok small_io %d ranks\n", kt_size);
	kt_fini();
	return 0;
}

#ifdef PROGRAM
int main(int argc, char **argv)
{
	return run(argc, argv);
}
#endif
