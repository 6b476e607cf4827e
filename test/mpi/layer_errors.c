/* What libkairan-mpiio says when something is wrong: every rank hears the same, nobody hangs, and the file works
 * afterwards.
 *
 *     mpirun -n 4 layer_errors FILE SMALL        the library preloaded, KAIRAN_MPIIO=force; SMALL: a file on a
 *                                                filesystem of 4 MiB
 */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, ranks, handled;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("rank %d, line %d: %s\n", rank, __LINE__, #condition); \
			fflush(stdout); \
			MPI_Abort(MPI_COMM_WORLD, 1); \
		} \
	} while (0)

/* RC's class is EXPECTED (MPI_SUCCESS: any error), and the same on all ranks. */
static void check_class(int rc, int expected, int line)
{
	int class, least, most;

	MPI_Error_class(rc, &class);
	MPI_Allreduce(&class, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	MPI_Allreduce(&class, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (least == most && class != MPI_SUCCESS && (class == expected || expected == MPI_SUCCESS))
		return;
	printf("rank %d, line %d: class %d instead of %d, of all ranks %d to %d\n", rank, line, class, expected, least,
		most);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
}
#define FAILS(call, expected) check_class(call, expected, __LINE__)

static MPI_File open_file(const char *path, int amode, const char *hints)
{
	MPI_Info info;
	MPI_File fh;
	char value[MPI_MAX_INFO_VAL + 1];
	int found;

	MPI_Info_create(&info);
	MPI_Info_set(info, "romio_cb_write", "enable");
	MPI_Info_set(info, "romio_cb_read", "enable");
	MPI_Info_set(info, "cb_config_list", "*:*");
	MPI_Info_set(info, "striping_unit", hints);
	CHECK(MPI_File_open(MPI_COMM_WORLD, path, amode, info, &fh) == MPI_SUCCESS);
	MPI_Info_free(&info);
	CHECK(MPI_File_get_info(fh, &info) == MPI_SUCCESS);
	MPI_Info_get(info, "kairan_slots", MPI_MAX_INFO_VAL, value, &found);
	CHECK(found);
	MPI_Info_free(&info);
	return fh;
}

static void note_error(MPI_File *fh, int *code, ...)
{
	(void)fh, (void)code;
	handled++;
}

/* Arguments that are wrong on one rank only, or everywhere. */
static void arguments(const char *path)
{
	MPI_File fh = open_file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, "65536");
	MPI_Errhandler handler;
	char bytes[1000] = {0};
	struct stat st;

	FAILS(MPI_File_write_at_all(fh, 1000 * rank, bytes, rank == 1 ? -1 : 1000, MPI_BYTE, MPI_STATUS_IGNORE),
		MPI_ERR_COUNT);
	FAILS(MPI_File_write_at_all(fh, rank == 2 ? -5 : 0, bytes, 1000, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	CHECK(stat(path, &st) == 0 && st.st_size == 0);
	CHECK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == MPI_SUCCESS);
	FAILS(MPI_File_write_all(fh, bytes, 3, MPI_BYTE, MPI_STATUS_IGNORE), MPI_SUCCESS);
	FAILS(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_SUCCESS);
	MPI_File_create_errhandler(note_error, &handler);
	MPI_File_set_errhandler(fh, handler);
	FAILS(MPI_File_write_at_all(fh, 0, bytes, rank == 0 ? -1 : 4, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
	CHECK(handled == 1);
	MPI_Errhandler_free(&handler);
	CHECK(MPI_File_write_at_all(fh, 4 * rank, bytes, 4, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_File_close(&fh) == MPI_SUCCESS && fh == MPI_FILE_NULL);
	CHECK(stat(path, &st) == 0 && st.st_size == 16 * ranks);
}

static void modes(const char *path)
{
	char bytes[100] = {0};
	MPI_File fh = open_file(path, MPI_MODE_RDONLY, "65536");
	MPI_Request request = MPI_REQUEST_NULL;

	FAILS(MPI_File_write_all(fh, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
	FAILS(MPI_File_write_at(fh, 0, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
	if (MPI_File_iwrite_all(fh, bytes, 100, MPI_BYTE, &request) == MPI_SUCCESS)
		CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS);
	CHECK(MPI_File_close(&fh) == MPI_SUCCESS);
	fh = open_file(path, MPI_MODE_WRONLY, "65536");
	FAILS(MPI_File_read_all(fh, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
	CHECK(MPI_File_write_at_all(fh, 100 * rank, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_File_close(&fh) == MPI_SUCCESS);
	FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &fh),
		MPI_SUCCESS);
	FAILS(MPI_File_open(MPI_COMM_WORLD, "/nonexistent/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_SUCCESS);
}

/* The process gets no more than BYTES of memory from here on.  Returns the limit before. */
static struct rlimit limit_memory(rlim_t bytes)
{
	FILE *in = fopen("/proc/self/statm", "r");
	struct rlimit limit, before = {0};
	unsigned long pages = 0;

	CHECK(in && fscanf(in, "%lu", &pages) == 1 && getrlimit(RLIMIT_AS, &before) == 0);
	fclose(in);
	limit = before;
	limit.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	return before;
}

/* Regions of all ranks, interleaved, many rounds.  MEMORY: more than this the call does not get; 0: no limit. */
static int write_regions_in(MPI_File fh, int regions, char filler, rlim_t memory)
{
	struct rlimit before = {0};
	enum { REGION = 1000 };
	char *bytes = malloc((size_t)regions * REGION);
	MPI_Datatype region, cell;
	int rc;

	memset(bytes, filler, (size_t)regions * REGION);
	MPI_Type_contiguous(REGION, MPI_BYTE, &region);
	MPI_Type_create_resized(region, 0, (MPI_Aint)REGION * ranks, &cell);
	MPI_Type_commit(&cell);
	CHECK(MPI_File_set_view(fh, (MPI_Offset)REGION * rank, MPI_BYTE, cell, "native", MPI_INFO_NULL) == MPI_SUCCESS);
	if (memory)
		before = limit_memory(memory);
	rc = MPI_File_write_all(fh, bytes, regions * REGION, MPI_BYTE, MPI_STATUS_IGNORE);
	if (memory)
		CHECK(setrlimit(RLIMIT_AS, &before) == 0);
	MPI_Type_free(&cell);
	MPI_Type_free(&region);
	free(bytes);
	return rc;
}

static int write_regions(MPI_File fh, int regions, char filler)
{
	return write_regions_in(fh, regions, filler, 0);
}

static void check_bytes(const char *path, long count, char expected)
{
	FILE *in = fopen(path, "rb");
	long i = 0;

	CHECK(in);
	while (i < count && getc(in) == expected)
		i++;
	fclose(in);
	CHECK(i == count);
}

/* The filesystem is full in the middle of the call; then there is room again. */
static void full_disk(const char *path)
{
	MPI_File fh = open_file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, "65536");

	FAILS(write_regions(fh, 2000, 'x'), MPI_ERR_NO_SPACE);
	CHECK(MPI_File_set_size(fh, 0) == MPI_SUCCESS);
	CHECK(write_regions(fh, 200, 'y') == MPI_SUCCESS);
	CHECK(MPI_File_close(&fh) == MPI_SUCCESS);
	check_bytes(path, 200L * 1000 * ranks, 'y');
}

/* What one rank's argument brought down had views that nobody had heard of before; the next call has the same ones. */
static void views_after_an_error(const char *path)
{
	enum { CELL = 100, CELLS = 1000 };
	MPI_File fh = open_file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, "65536");
	MPI_Datatype cell, type;
	char bytes[CELL * CELLS], got[CELL * CELLS];

	CHECK(MPI_File_set_size(fh, 0) == MPI_SUCCESS);
	MPI_Type_contiguous(CELL, MPI_BYTE, &cell);
	MPI_Type_create_resized(cell, 0, (MPI_Aint)CELL * ranks, &type);
	MPI_Type_commit(&type);
	CHECK(MPI_File_set_view(fh, (MPI_Offset)CELL * rank, MPI_BYTE, type, "native", MPI_INFO_NULL) == MPI_SUCCESS);
	memset(bytes, 'a' + rank, sizeof(bytes));
	FAILS(MPI_File_write_at_all(fh, 0, bytes, rank == 1 ? -1 : (int)sizeof(bytes), MPI_BYTE, MPI_STATUS_IGNORE),
		MPI_ERR_COUNT);
	CHECK(MPI_File_write_at_all(fh, 0, bytes, (int)sizeof(bytes), MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_File_read_at_all(fh, 0, got, (int)sizeof(got), MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(memcmp(got, bytes, sizeof(got)) == 0);
	CHECK(MPI_File_close(&fh) == MPI_SUCCESS);
	MPI_Type_free(&cell);
	MPI_Type_free(&type);
}

/* A tebibyte apart: nobody goes through all the rounds between. */
static void far_apart(const char *path)
{
	MPI_File fh = open_file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, "65536");
	MPI_Offset place = (MPI_Offset)rank << 40, size;
	char bytes[100], got[100];
	MPI_Status status;
	int count;

	memset(bytes, 'a' + rank, sizeof(bytes));
	CHECK(MPI_File_write_at_all(fh, place, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_File_read_at_all(fh, place, got, 100, MPI_BYTE, &status) == MPI_SUCCESS);
	MPI_Get_count(&status, MPI_BYTE, &count);
	CHECK(count == 100 && memcmp(bytes, got, 100) == 0);
	CHECK(MPI_File_get_size(fh, &size) == MPI_SUCCESS && size == ((MPI_Offset)(ranks - 1) << 40) + 100);
	CHECK(MPI_File_close(&fh) == MPI_SUCCESS);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* An append starts at the end; the pointer goes with MPI's into atomic mode and back. */
static void pointers(const char *path)
{
	MPI_File fh;
	MPI_Offset position;
	char bytes[10] = "123456789";

	fh = open_file(path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_APPEND, "65536");
	CHECK(MPI_File_get_position(fh, &position) == MPI_SUCCESS && position == ((MPI_Offset)(ranks - 1) << 40) + 100);
	CHECK(MPI_File_seek(fh, 50, MPI_SEEK_SET) == MPI_SUCCESS);
	CHECK(MPI_File_set_atomicity(fh, 1) == MPI_SUCCESS);
	CHECK(MPI_File_get_position(fh, &position) == MPI_SUCCESS && position == 50);
	CHECK(MPI_File_write(fh, bytes, 10, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_File_set_atomicity(fh, 0) == MPI_SUCCESS);
	CHECK(MPI_File_get_position(fh, &position) == MPI_SUCCESS && position == 60);
	CHECK(MPI_File_set_size(fh, 0) == MPI_SUCCESS);
	CHECK(MPI_File_close(&fh) == MPI_SUCCESS);
}

/* One aggregator of four may not write beyond 1 MiB; the others may. */
static void one_aggregator_fails(const char *path)
{
	struct rlimit limit, before;
	MPI_File fh = open_file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, "65536");

	signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit = before;
	limit.rlim_cur = 1 << 20;
	if (rank == 1)
		CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	FAILS(write_regions(fh, 1000, 'x'), MPI_ERR_IO);
	CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
	CHECK(write_regions(fh, 1000, 'z') == MPI_SUCCESS);
	CHECK(MPI_File_close(&fh) == MPI_SUCCESS);
	check_bytes(path, 1000L * 1000 * ranks, 'z');
}

/*
 * No aggregator gets the memory for a round.  The first of all, while the heap has no large piece that was freed.
 * MPICH's own MPI_Irecv aborts the program then.
 */
static void no_memory(const char *path)
{
	enum { REGIONS = 20000 };
	MPI_File fh = open_file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, "16777216");

	FAILS(write_regions_in(fh, REGIONS, 'x', 256 << 10), MPI_SUCCESS);
	CHECK(write_regions(fh, REGIONS, 'm') == MPI_SUCCESS);
	CHECK(MPI_File_set_size(fh, (MPI_Offset)REGIONS * 1000 * ranks) == MPI_SUCCESS);
	CHECK(MPI_File_close(&fh) == MPI_SUCCESS);
	check_bytes(path, (long)REGIONS * 1000 * ranks, 'm');
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(rank > 0 || unlink(path) == 0);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	CHECK(argc == 3);
#ifdef OPEN_MPI
	no_memory(argv[1]);
#else
	(void)no_memory;
#endif
	arguments(argv[1]);
	modes(argv[1]);
	views_after_an_error(argv[1]);
	far_apart(argv[1]);
	pointers(argv[1]);
	one_aggregator_fails(argv[1]);
	full_disk(argv[2]);
	if (rank == 0)
		printf("layer_errors: right\n");
	MPI_Finalize();
	return 0;
}
