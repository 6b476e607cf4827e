// MPI-IO as the standard has it, from all ranks, against a model of the file: conformance DIR EXPECT [-i HINT=VALUE]...
// [-x SCENARIO]... [SCENARIO...]
//
// Runs the named scenarios, or all but those after -x, over files in DIR ("ufs:/mnt" chooses ROMIO's driver) and leaves
// in EXPECT what each file must hold.
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *dir, *expect;
MPI_Info hints = MPI_INFO_NULL;

static const struct scenario {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{"independent", independent},
	{"strided", strided},
	{"collective", collective},
	{"complementary", complementary},
	{"memory", memory},
	{"split", split},
	{"nonblocking", nonblocking},
	{"atomic", atomic},
	{"atomic_strided", atomic_strided},
	{"syncs", syncs},
	{"end_of_file", end_of_file},
	{"end_of_file_all", end_of_file_all},
	{"names", names},
	{"resize", resize},
	{"preallocate", preallocate},
	{"pointers", pointers},
	{"seek_end", seek_end},
	{"shared", shared},
	{"ordered", ordered},
};

MPI_File open_all(const char *name, int mode)
{
	MPI_File file;
	KT_OK(MPI_File_open(MPI_COMM_WORLD, kt_path(dir, name), mode, hints, &file));
	return file;
}

void close_and_compare(MPI_File *file, const char *name, struct kt_model *model)
{
	KT_OK(MPI_File_close(file));
	kt_same(model, kt_posix_path(dir, name));
	kt_save(model, kt_path(expect, name));
	kt_model_fini(model);
	MPI_Barrier(MPI_COMM_WORLD);
}

void sync_barrier_sync(MPI_File file)
{
	KT_OK(MPI_File_sync(file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_sync(file));
}

MPI_Datatype slot_type(int block, int slots)
{
	MPI_Datatype one, type;
	MPI_Type_contiguous(block, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0, (MPI_Aint)block * slots, &type);
	MPI_Type_commit(&type);
	MPI_Type_free(&one);
	return type;
}

MPI_Datatype memory_type(int count, int block, int stride)
{
	MPI_Datatype type;
	MPI_Type_vector(count, block, stride, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	return type;
}

void prefill(MPI_File file, struct kt_model *model, size_t length)
{
	unsigned char *bytes = kt_alloc(length);
	kt_fill(bytes, length, 4711);
	kt_model_put(model, 0, bytes, length);
	if (!kt_rank) {
		MPI_Status status;
		int count;
		KT_OK(MPI_File_write_at(file, 0, bytes, (int)length, MPI_BYTE, &status));
		MPI_Get_count(&status, MPI_BYTE, &count);
		KT_CHECK(count == (int)length, "%d of %zu bytes written", count, length);
	}
	free(bytes);
	sync_barrier_sync(file);
}

static void run(const struct scenario *scenario)
{
	double start = kt_now();
	kt_doing = scenario->name;
	scenario->run();
	MPI_Barrier(MPI_COMM_WORLD);
	if (!kt_rank)
		printf("ok %s %.2f s\n", scenario->name, kt_now() - start);
}

int main(int argc, char **argv)
{
	kt_init(&argc, &argv);
	KT_CHECK(argc >= 3, "conformance DIR EXPECT [-i HINT=VALUE]... [-x SCENARIO]... [SCENARIO...]");
	dir = argv[1];
	expect = argv[2];
	int first = 3;
	const char *left_out[sizeof scenarios / sizeof *scenarios];
	size_t n_left_out = 0;
	for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
		if (!strcmp(argv[first], "-x")) {
			KT_CHECK(n_left_out < sizeof scenarios / sizeof *scenarios, "more -x than scenarios");
			left_out[n_left_out++] = argv[first + 1];
			continue;
		}
		char *value = strchr(argv[first + 1], '=');
		KT_CHECK(value, "%s: no value", argv[first + 1]);
		*value = 0;
		if (hints == MPI_INFO_NULL)
			MPI_Info_create(&hints);
		MPI_Info_set(hints, argv[first + 1], value + 1);
	}
	int ran = 0;
	for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
		bool wanted = first == argc;
		for (size_t x = 0; x < n_left_out; x++)
			wanted &= strcmp(left_out[x], scenarios[i].name) != 0;
		for (int a = first; a < argc; a++)
			wanted |= !strcmp(argv[a], scenarios[i].name);
		if (wanted) {
			run(&scenarios[i]);
			ran++;
		}
	}
	KT_CHECK(ran && (first == argc || ran == argc - first), "no such scenario");
	if (hints != MPI_INFO_NULL)
		MPI_Info_free(&hints);
	kt_fini();
}
