// Parallel HDF5 on shared files: hdf5_io write|read DIR
//
// write: all ranks write datasets (contiguous and chunked, collective and independent transfer, hyperslabs of rows, of
// columns, and with a rank without data), read them back through another rank's selection, and close. read: one process
// alone reads all, as a later job on another node would. Values are functions of the position.
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kt.h"

enum { ROWS = 48, COLUMNS = 120, FILES = 4 };

#define H5(call) \
	({ \
		hid_t id_ = (hid_t)(call); \
		KT_CHECK(id_ >= 0, "%s", #call); \
		id_; \
	})

static int value_of(int file, hsize_t row, hsize_t column)
{
	return (int)(file * 1000003 + row * 1009 + column * 7 + 1);
}

static const char *file_name(const char *dir, int file)
{
	static char name[32];
	snprintf(name, sizeof name, "hdf5-%d.h5", file);
	return kt_path(dir, name);
}

// Bit 0: chunked; bit 1: collective. Chunks do not divide the selections: several ranks write to one.
static bool is_chunked(int file)
{
	return file & 1;
}
static bool is_collective(int file)
{
	return file & 2;
}

struct part {
	hsize_t start[2], stride[2], count[2], block[2];
};

// Odd files: columns, interleaved, the last rank without any; even files: bands of rows.
static struct part part_of(int file, int rank, int size)
{
	struct part part = {.stride = {1, 1}, .count = {1, 1}, .block = {1, 1}};
	if (is_chunked(file)) {
		int writers = size > 1 ? size - 1 : 1;
		part.start[1] = (hsize_t)rank * 2;
		part.stride[1] = (hsize_t)writers * 2;
		part.count[1] = rank < writers ? COLUMNS / (hsize_t)(writers * 2) : 0;
		part.block[0] = ROWS;
		part.block[1] = 2;
		part.count[0] = part.count[1] ? 1 : 0;
	} else {
		part.start[0] = ROWS / (hsize_t)size * (hsize_t)rank;
		part.block[0] = ROWS / (hsize_t)size;
		part.block[1] = COLUMNS;
	}
	return part;
}

static hsize_t cells_of(const struct part *part)
{
	return part->count[0] * part->block[0] * part->count[1] * part->block[1];
}

static hid_t selection(hid_t dataset, const struct part *part)
{
	hid_t space = H5(H5Dget_space(dataset));
	if (cells_of(part))
		H5(H5Sselect_hyperslab(space, H5S_SELECT_SET, part->start, part->stride, part->count, part->block));
	else
		H5(H5Sselect_none(space));
	return space;
}

// The values of a selection in the order in which it is traversed: by rows.
static void fill(int file, const struct part *part, int *values)
{
	for (hsize_t row = 0; row < part->block[0]; row++)
		for (hsize_t c = 0; c < part->count[1]; c++)
			for (hsize_t b = 0; b < part->block[1]; b++)
				*values++ =
					value_of(file, part->start[0] + row, part->start[1] + c * part->stride[1] + b);
}

static void transfer(hid_t dataset, int file, int rank, bool writing)
{
	struct part part = part_of(file, rank, kt_size);
	hsize_t cells = cells_of(&part);
	int *values = kt_alloc(cells * sizeof *values), *got = kt_alloc(cells * sizeof *got);
	if (cells)
		fill(file, &part, values);
	hid_t space = selection(dataset, &part), memory = H5(H5Screate_simple(1, &cells, NULL)),
	      plist = H5(H5Pcreate(H5P_DATASET_XFER));
	H5(H5Pset_dxpl_mpio(plist, is_collective(file) ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
	if (writing) {
		H5(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, plist, values));
	} else {
		H5(H5Dread(dataset, H5T_NATIVE_INT, memory, space, plist, got));
		kt_same_bytes(got, values, cells * sizeof *values, "a selection");
	}
	H5Pclose(plist);
	H5Sclose(memory);
	H5Sclose(space);
	free(values);
	free(got);
}

static void write_file(const char *dir, int file)
{
	hid_t access = H5(H5Pcreate(H5P_FILE_ACCESS)), create = H5(H5Pcreate(H5P_DATASET_CREATE));
	H5(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
	hid_t h5 = H5(H5Fcreate(file_name(dir, file), H5F_ACC_TRUNC, H5P_DEFAULT, access));
	hsize_t size[2] = {ROWS, COLUMNS}, chunk[2] = {13, 35};
	hid_t space = H5(H5Screate_simple(2, size, NULL));
	if (is_chunked(file))
		H5(H5Pset_chunk(create, 2, chunk));
	hid_t dataset = H5(H5Dcreate2(h5, "numbers", H5T_NATIVE_INT, space, H5P_DEFAULT, create, H5P_DEFAULT));
	transfer(dataset, file, kt_rank, true);
	H5(H5Fflush(h5, H5F_SCOPE_GLOBAL)); // MPI_File_sync on all ranks
	MPI_Barrier(MPI_COMM_WORLD);
	transfer(dataset, file, (kt_rank + 1) % kt_size, false);
	MPI_Barrier(MPI_COMM_WORLD);
	H5(H5Dclose(dataset));
	// A second dataset grows the file after the first one's collective writes.
	int one = file;
	hid_t scalar = H5(H5Screate(H5S_SCALAR)),
	      attribute = H5(H5Acreate2(h5, "number", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT));
	H5(H5Awrite(attribute, H5T_NATIVE_INT, &one));
	H5(H5Aclose(attribute));
	H5Sclose(scalar);
	H5Sclose(space);
	H5(H5Fclose(h5));
	H5Pclose(access);
	H5Pclose(create);
}

// As another program does that knows nothing of MPI-IO.
static void read_file(const char *dir, int file)
{
	hid_t h5 = H5(H5Fopen(file_name(dir, file), H5F_ACC_RDONLY, H5P_DEFAULT)),
	      dataset = H5(H5Dopen2(h5, "numbers", H5P_DEFAULT));
	int(*values)[COLUMNS] = kt_alloc(ROWS * sizeof *values), one = -1;
	H5(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
	for (hsize_t row = 0; row < ROWS; row++)
		for (hsize_t column = 0; column < COLUMNS; column++)
			KT_CHECK(values[row][column] == value_of(file, row, column),
				"%d: row %d, column %d is %d instead of %d", file, (int)row, (int)column,
				values[row][column], value_of(file, row, column));
	hid_t attribute = H5(H5Aopen(h5, "number", H5P_DEFAULT));
	H5(H5Aread(attribute, H5T_NATIVE_INT, &one));
	KT_CHECK(one == file, "the attribute of %d is %d", file, one);
	H5Aclose(attribute);
	free(values);
	H5Dclose(dataset);
	H5Fclose(h5);
}

int main(int argc, char **argv)
{
	kt_init(&argc, &argv);
	KT_CHECK(argc == 3 && ROWS % kt_size == 0 && COLUMNS % (kt_size > 1 ? 2 * (kt_size - 1) : 2) == 0,
		"hdf5_io write|read DIR, with 1, 2, 4 or 6 processes");
	bool writing = !strcmp(argv[1], "write");
	for (int file = 0; file < FILES; file++) {
		static char what[64];
		snprintf(what, sizeof what, "hdf5 %s, %s", is_chunked(file) ? "chunked" : "contiguous",
			is_collective(file) ? "collective" : "independent");
		kt_doing = what;
		double start = kt_now();
		if (writing)
			write_file(argv[2], file);
		else if (!kt_rank)
			read_file(argv[2], file);
		if (!kt_rank)
			printf("ok %s %.2f s\n", what, kt_now() - start);
	}
	kt_fini();
}
