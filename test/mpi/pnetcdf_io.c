// PnetCDF on a shared file: pnetcdf_io write|read DIR
//
// write: all ranks write a fixed variable in blocks of columns (collectively), record variables of several records
// (interleaved in the file, nonblocking and combined), and one independently; read them back through another rank's
// part. read: one process alone reads all.
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kt.h"

enum { ROWS = 40, COLUMNS = 96, RECORDS = 5 };

#define NC(call) \
	do { \
		int code_ = (call); \
		KT_CHECK(code_ == NC_NOERR, "%s: %s", #call, ncmpi_strerror(code_)); \
	} while (0)

static int value_of(int variable, MPI_Offset row, MPI_Offset column)
{
	return (int)(variable * 1000003 + row * 1009 + column * 7 + 1);
}

static int *values_of(int variable, MPI_Offset row, MPI_Offset rows, MPI_Offset column, MPI_Offset columns)
{
	int *values = kt_alloc((size_t)(rows * columns) * sizeof *values);
	for (MPI_Offset r = 0; r < rows; r++)
		for (MPI_Offset c = 0; c < columns; c++)
			values[r * columns + c] = value_of(variable, row + r, column + c);
	return values;
}

static void write_all(const char *path)
{
	int nc, row, column, record, grid, series[2], lone;
	MPI_Offset width = COLUMNS / kt_size, start[2] = {0, width * kt_rank}, count[2] = {ROWS, width};
	NC(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &nc));
	NC(ncmpi_def_dim(nc, "row", ROWS, &row));
	NC(ncmpi_def_dim(nc, "column", COLUMNS, &column));
	NC(ncmpi_def_dim(nc, "record", NC_UNLIMITED, &record));
	NC(ncmpi_def_var(nc, "grid", NC_INT, 2, (int[]){row, column}, &grid));
	NC(ncmpi_def_var(nc, "lone", NC_INT, 2, (int[]){row, column}, &lone));
	NC(ncmpi_def_var(nc, "series0", NC_INT, 2, (int[]){record, column}, &series[0]));
	NC(ncmpi_def_var(nc, "series1", NC_INT, 2, (int[]){record, column}, &series[1]));
	NC(ncmpi_put_att_text(nc, NC_GLOBAL, "title", 6, "kairan"));
	NC(ncmpi_enddef(nc));

	int *values = values_of(0, 0, ROWS, start[1], width);
	NC(ncmpi_put_vara_int_all(nc, grid, start, count, values));
	free(values);

	int requests[2 * RECORDS], statuses[2 * RECORDS], *pending[2 * RECORDS];
	for (int i = 0; i < 2 * RECORDS; i++) {
		MPI_Offset at[2] = {i / 2, start[1]}, one[2] = {1, width};
		pending[i] = values_of(2 + i % 2, i / 2, 1, start[1], width);
		NC(ncmpi_iput_vara_int(nc, series[i % 2], at, one, pending[i], &requests[i]));
	}
	NC(ncmpi_wait_all(nc, 2 * RECORDS, requests, statuses));
	for (int i = 0; i < 2 * RECORDS; i++) {
		NC(statuses[i]);
		free(pending[i]);
	}

	NC(ncmpi_begin_indep_data(nc));
	values = values_of(1, 0, ROWS, start[1], width);
	NC(ncmpi_put_vara_int(nc, lone, start, count, values));
	free(values);
	NC(ncmpi_end_indep_data(nc));
	NC(ncmpi_sync(nc));
	MPI_Barrier(MPI_COMM_WORLD);

	MPI_Offset other[2] = {0, width * ((kt_rank + 1) % kt_size)};
	int *got = kt_alloc((size_t)(ROWS * width) * sizeof *got);
	for (int variable = 0; variable < 2; variable++) {
		values = values_of(variable, 0, ROWS, other[1], width);
		NC(ncmpi_get_vara_int_all(nc, variable ? lone : grid, other, count, got));
		kt_same_bytes(got, values, (size_t)(ROWS * width) * sizeof *got, variable ? "lone" : "grid");
		free(values);
	}
	free(got);
	NC(ncmpi_close(nc));
}

static void read_all(const char *path)
{
	static const char *const names[] = {"grid", "lone", "series0", "series1"};
	int nc;
	NC(ncmpi_open(MPI_COMM_SELF, path, NC_NOWRITE, MPI_INFO_NULL, &nc));
	for (int i = 0; i < 4; i++) {
		int variable;
		MPI_Offset rows = i < 2 ? ROWS : RECORDS, start[2] = {0, 0}, count[2] = {rows, COLUMNS};
		int *values = values_of(i, 0, rows, 0, COLUMNS), *got = kt_alloc((size_t)rows * COLUMNS * sizeof *got);
		NC(ncmpi_inq_varid(nc, names[i], &variable));
		NC(ncmpi_get_vara_int_all(nc, variable, start, count, got));
		kt_same_bytes(got, values, (size_t)rows * COLUMNS * sizeof *got, names[i]);
		free(values);
		free(got);
	}
	char title[8] = "";
	NC(ncmpi_get_att_text(nc, NC_GLOBAL, "title", title));
	KT_CHECK(!strcmp(title, "kairan"), "the title is %s", title);
	NC(ncmpi_close(nc));
}

int main(int argc, char **argv)
{
	kt_init(&argc, &argv);
	KT_CHECK(argc == 3 && COLUMNS % kt_size == 0, "pnetcdf_io write|read DIR, with a divisor of 96 processes");
	kt_doing = argv[1];
	const char *path = kt_path(argv[2], "pnetcdf.nc");
	if (!strcmp(argv[1], "write"))
		write_all(path);
	else if (!kt_rank)
		read_all(path);
	if (!kt_rank)
		printf("ok pnetcdf %s\n", argv[1]);
	kt_fini();
}
