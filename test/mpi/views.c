// File views with the layer, beyond what its own collective calls need of them: views DIR
//
//   told      nested filetypes (resized, indexed, struct within each other) and pair types with the calls that fall
//   through to the MPI
//             library: shared and ordered pointers, atomic mode. The library alone crashes or corrupts memory over some
//             of these.
//   get_view  MPI_File_get_view gives the program's own types, and get_byte_offset and get_type_extent count by them
//   large     calls with large counts share file pointer, view and order of writes with the others (MPI-4)
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kt.h"

static const char *dir;

static MPI_File open_new(const char *name)
{
	MPI_File file;
	KT_OK(MPI_File_open(MPI_COMM_WORLD, kt_path(dir, name), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	KT_OK(MPI_File_set_size(file, 0));
	KT_CHECK(kt_is_layers(file), "the layer does not handle the file");
	return file;
}

static void sync_barrier_sync(MPI_File file)
{
	KT_OK(MPI_File_sync(file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_sync(file));
}

// ---- types ----

static MPI_Datatype resized(MPI_Datatype *inner, MPI_Aint lb, MPI_Aint extent)
{
	MPI_Datatype type;
	MPI_Type_create_resized(*inner, lb, extent, &type);
	MPI_Type_free(inner);
	return type;
}

// Indexed blocks of a resized struct of two vectors; lowest byte not at 0.
static MPI_Datatype nested(void)
{
	MPI_Datatype parts[2], structure, list, dup;
	MPI_Type_vector(3, 2, 5, MPI_SHORT, &parts[0]);
	MPI_Type_create_hvector(2, 3, 11, MPI_CHAR, &parts[1]);
	MPI_Type_create_struct(2, (int[]){1, 2}, (MPI_Aint[]){4, 40}, parts, &structure);
	MPI_Type_free(&parts[0]);
	MPI_Type_free(&parts[1]);
	structure = resized(&structure, -8, 96);
	MPI_Type_indexed(3, (int[]){2, 1, 3}, (int[]){1, 4, 6}, structure, &list);
	MPI_Type_free(&structure);
	MPI_Type_dup(list, &dup);
	MPI_Type_free(&list);
	return resized(&dup, 16, 1000);
}

static MPI_Datatype pairs(void)
{
	MPI_Datatype type;
	MPI_Type_indexed(2, (int[]){2, 1}, (int[]){0, 4}, MPI_DOUBLE_INT, &type);
	return resized(&type, 0, 112);
}

static MPI_Datatype shorts(void)
{
	MPI_Datatype type;
	MPI_Type_create_hindexed(3, (int[]){1, 2, 1}, (MPI_Aint[]){7, 20, 33}, MPI_SHORT, &type);
	return resized(&type, 0, 41);
}

static const struct {
	const char *name;
	MPI_Datatype (*make)(void);
	MPI_Datatype etype;
} filetypes[] = {
	{"nested", nested, MPI_DATATYPE_NULL},
	{"pairs", pairs, MPI_DOUBLE_INT},
	{"shorts", shorts, MPI_SHORT},
};

static MPI_Datatype etype_of(int kind)
{
	return filetypes[kind].etype == MPI_DATATYPE_NULL ? MPI_BYTE : filetypes[kind].etype;
}

// ---- told ----

static void whole_file(MPI_File file, const struct kt_model *model)
{
	MPI_Offset size;
	sync_barrier_sync(file);
	KT_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	KT_OK(MPI_File_get_size(file, &size));
	KT_CHECK((uint64_t)size == model->size, "%lld bytes instead of %llu", (long long)size,
		(unsigned long long)model->size);
	unsigned char *bytes = kt_alloc(model->size);
	KT_OK(MPI_File_read_at_all(file, 0, bytes, (int)model->size, MPI_BYTE, MPI_STATUS_IGNORE));
	kt_same_bytes(bytes, model->bytes, model->size, "the file");
	free(bytes);
	MPI_Barrier(MPI_COMM_WORLD);
}

// Records by the ordered, then by the shared pointer (in turns, so that their places are known), then in atomic mode.
static void told(void)
{
	for (int kind = 0; kind < (int)(sizeof filetypes / sizeof *filetypes); kind++) {
		MPI_File file = open_new("told");
		MPI_Datatype type = filetypes[kind].make(), etype = etype_of(kind);
		struct kt_model model;
		struct kt_view view;
		MPI_Offset at;
		int etype_size, etypes, length;
		kt_doing = filetypes[kind].name;
		MPI_Type_commit(&type);
		MPI_Type_size(etype, &etype_size);
		kt_view_init(&view, 24, etype, type);
		etypes = (int)view.size / etype_size / 2 + 1;
		length = etypes * etype_size;
		unsigned char *bytes = kt_alloc((size_t)length * 3);
		kt_model_init(&model, 1 << 20);
		KT_OK(MPI_File_set_size(file, 1 << 16)); // ROMIO writes rubbish into gaps beyond the end
		kt_model_resize(&model, 1 << 16);
		KT_OK(MPI_File_set_view(file, 24, etype, type, "native", MPI_INFO_NULL));
		kt_fill(bytes, (size_t)length, (uint64_t)kt_rank);
		KT_OK(MPI_File_write_ordered(file, bytes, length, MPI_BYTE, MPI_STATUS_IGNORE));
		for (int rank = 0; rank < kt_size; rank++) {
			if (rank == kt_rank) {
				KT_OK(MPI_File_get_position_shared(file, &at));
				KT_CHECK(at == (MPI_Offset)etypes * (kt_size + rank), "the shared pointer is at %lld",
					(long long)at);
				KT_OK(MPI_File_write_shared(file, bytes, length, MPI_BYTE, MPI_STATUS_IGNORE));
			}
			MPI_Barrier(MPI_COMM_WORLD);
		}
		sync_barrier_sync(file);
		KT_OK(MPI_File_set_atomicity(file, 1));
		KT_OK(MPI_File_seek(file, (MPI_Offset)etypes * (2 * kt_size + kt_rank), MPI_SEEK_SET));
		KT_OK(MPI_File_write(file, bytes, length, MPI_BYTE, MPI_STATUS_IGNORE));
		MPI_Barrier(MPI_COMM_WORLD);
		KT_OK(MPI_File_write_at_all(file, (MPI_Offset)etypes * (3 * kt_size + kt_rank), bytes, length, MPI_BYTE,
			MPI_STATUS_IGNORE));
		KT_OK(MPI_File_get_position(file, &at));
		KT_CHECK(at == (MPI_Offset)etypes * (2 * kt_size + kt_rank + 1), "position %lld in atomic mode",
			(long long)at);
		KT_OK(MPI_File_set_atomicity(file, 0));
		KT_OK(MPI_File_write_all(file, bytes, 0, MPI_BYTE, MPI_STATUS_IGNORE));
		KT_OK(MPI_File_get_position(file, &at));
		KT_CHECK(at == (MPI_Offset)etypes * (2 * kt_size + kt_rank + 1), "position %lld after atomic mode",
			(long long)at);
		for (int turn = 0; turn < 4; turn++)
			for (int rank = 0; rank < kt_size; rank++) {
				kt_fill(bytes, (size_t)length, (uint64_t)rank);
				kt_model_write(&model, &view, (uint64_t)length * (uint64_t)(turn * kt_size + rank),
					bytes, (size_t)length);
			}
		whole_file(file, &model);
		KT_OK(MPI_File_close(&file));
		kt_same(&model, kt_posix_path(dir, "told"));
		kt_model_fini(&model);
		kt_view_fini(&view);
		MPI_Type_free(&type);
		free(bytes);
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

// ---- get_view ----

static void check_type(MPI_Datatype got, MPI_Datatype expected)
{
	struct kt_view a, b;
	kt_view_init(&a, 0, MPI_BYTE, got);
	kt_view_init(&b, 0, MPI_BYTE, expected);
	KT_CHECK(a.size == b.size && a.extent == b.extent, "%zu bytes in %lld instead of %zu in %lld", a.size,
		(long long)a.extent, b.size, (long long)b.extent);
	kt_same_bytes(a.positions, b.positions, a.size * sizeof *a.positions, "where the bytes of the type lie");
	kt_view_fini(&a);
	kt_view_fini(&b);
}

static void free_unless_basic(MPI_Datatype *type)
{
	int integers, addresses, types, combiner;
	MPI_Type_get_envelope(*type, &integers, &addresses, &types, &combiner);
	if (combiner != MPI_COMBINER_NAMED)
		MPI_Type_free(type);
}

static void get_view(void)
{
	MPI_File file = open_new("get_view");
	MPI_Datatype etype, filetype;
	MPI_Offset at;
	MPI_Aint extent;
	char datarep[MPI_MAX_DATAREP_STRING];
	KT_OK(MPI_File_get_view(file, &at, &etype, &filetype, datarep));
	KT_CHECK(at == 0 && etype == MPI_BYTE && filetype == MPI_BYTE && !strcmp(datarep, "native"),
		"the first view: %lld, %s", (long long)at, datarep);
	for (int kind = 0; kind < (int)(sizeof filetypes / sizeof *filetypes); kind++) {
		MPI_Datatype type = filetypes[kind].make();
		struct kt_view view;
		int size;
		kt_doing = filetypes[kind].name;
		MPI_Type_commit(&type);
		MPI_Type_size(etype_of(kind), &size);
		kt_view_init(&view, 123, etype_of(kind), type);
		KT_OK(MPI_File_set_view(file, 123, etype_of(kind), type, "native", MPI_INFO_NULL));
		MPI_Type_free(&type); // the file has its own
		type = filetypes[kind].make();
		MPI_Type_commit(&type);
		KT_OK(MPI_File_get_view(file, &at, &etype, &filetype, datarep));
		KT_CHECK(at == 123 && etype == etype_of(kind) && !strcmp(datarep, "native"), "the view: %lld, %s",
			(long long)at, datarep);
		check_type(filetype, type);
		free_unless_basic(&filetype);
		for (int i = 0; i < 30; i++) {
			KT_OK(MPI_File_get_byte_offset(file, i, &at));
			KT_CHECK(at == kt_view_position(&view, (uint64_t)(i * size)), "etype %d is at %lld", i,
				(long long)at);
		}
		KT_OK(MPI_File_get_type_extent(file, type, &extent));
		KT_CHECK(extent == view.extent, "extent %lld", (long long)extent);
		kt_view_fini(&view);
		MPI_Type_free(&type);
	}
	// A derived etype, and one that the library must refuse: then the view is as before.
	MPI_Datatype two, three, got;
	MPI_Type_contiguous(2, MPI_SHORT, &two);
	MPI_Type_contiguous(3, MPI_SHORT, &three);
	MPI_Type_commit(&two);
	MPI_Type_commit(&three);
	KT_OK(MPI_File_set_view(file, 5, two, two, "native", MPI_INFO_NULL));
	KT_CHECK(MPI_File_set_view(file, 0, two, three, "native", MPI_INFO_NULL) != MPI_SUCCESS,
		"a filetype of one and a half etypes");
	KT_CHECK(MPI_File_set_view(file, -1, two, two, "native", MPI_INFO_NULL) != MPI_SUCCESS,
		"a negative displacement");
	KT_CHECK(
		MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, two, "native", MPI_INFO_NULL) != MPI_SUCCESS, "no etype");
	KT_OK(MPI_File_get_view(file, &at, &got, &filetype, datarep));
	KT_CHECK(at == 5, "displacement %lld", (long long)at);
	check_type(got, two);
	check_type(filetype, two);
	MPI_Type_free(&got);
	MPI_Type_free(&filetype);
	MPI_Type_free(&two);
	MPI_Type_free(&three);
	KT_OK(MPI_File_close(&file));
}

// ---- large counts ----

#if MPI_VERSION >= 4
static void check_position(MPI_File file, MPI_Offset expected)
{
	MPI_Offset at;
	KT_OK(MPI_File_get_position(file, &at));
	KT_CHECK(at == expected, "position %lld instead of %lld", (long long)at, (long long)expected);
}

// Each rank writes its part of every stripe of the view with another call, by the pointer where there is one.
static void large(void)
{
	enum { LENGTH = 1000, WAYS = 9 };
	MPI_File file = open_new("large");
	MPI_Datatype one, type;
	MPI_Request request;
	MPI_Status status;
	unsigned char *bytes = kt_alloc(LENGTH * WAYS), *got = kt_alloc(LENGTH * WAYS);
	int count;
	MPI_Type_contiguous(100, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0, 100 * kt_size, &type);
	MPI_Type_commit(&type);
	kt_fill(bytes, LENGTH * WAYS, (uint64_t)kt_rank);
	KT_OK(MPI_File_set_view(file, 100 * kt_rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
	KT_OK(MPI_File_write_c(file, bytes, LENGTH, MPI_BYTE, &status));
	MPI_Get_count(&status, MPI_BYTE, &count);
	KT_CHECK(count == LENGTH, "%d written", count);
	KT_OK(MPI_File_write_all(file, bytes + LENGTH, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	check_position(file, 2 * LENGTH);
	KT_OK(MPI_File_write_all_c(file, bytes + 2 * LENGTH, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_iwrite_c(file, bytes + 3 * LENGTH, LENGTH, MPI_BYTE, &request));
	KT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_iwrite_all_c(file, bytes + 4 * LENGTH, LENGTH, MPI_BYTE, &request));
	KT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_write_all_begin_c(file, bytes + 5 * LENGTH, LENGTH, MPI_BYTE));
	KT_OK(MPI_File_write_all_end(file, bytes + 5 * LENGTH, MPI_STATUS_IGNORE));
	check_position(file, 6 * LENGTH);
	KT_OK(MPI_File_write_at_c(file, 6 * LENGTH, bytes + 6 * LENGTH, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_write_at_all_c(file, 7 * LENGTH, bytes + 7 * LENGTH, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_write_at_all_begin_c(file, 8 * LENGTH, bytes + 8 * LENGTH, LENGTH, MPI_BYTE));
	KT_OK(MPI_File_write_at_all_end(file, bytes + 8 * LENGTH, MPI_STATUS_IGNORE));
	check_position(file, 6 * LENGTH);
	sync_barrier_sync(file);
	KT_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
	KT_OK(MPI_File_read_c(file, got, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_read_all_c(file, got + LENGTH, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_iread_all_c(file, got + 2 * LENGTH, LENGTH, MPI_BYTE, &request));
	KT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_read_all_begin_c(file, got + 3 * LENGTH, LENGTH, MPI_BYTE));
	KT_OK(MPI_File_read_all_end(file, got + 3 * LENGTH, MPI_STATUS_IGNORE));
	check_position(file, 4 * LENGTH);
	KT_OK(MPI_File_read_at_c(file, 4 * LENGTH, got + 4 * LENGTH, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_read_at_all_c(file, 5 * LENGTH, got + 5 * LENGTH, 4 * LENGTH, MPI_BYTE, &status));
	MPI_Get_count(&status, MPI_BYTE, &count);
	KT_CHECK(count == 4 * LENGTH, "%d read", count);
	kt_same_bytes(got, bytes, LENGTH * WAYS, "written and read with large counts");
	MPI_Type_free(&one);
	MPI_Type_free(&type);
	free(bytes);
	free(got);
	KT_OK(MPI_File_close(&file));
}
#endif

int main(int argc, char **argv)
{
	kt_init(&argc, &argv);
	KT_CHECK(argc == 2, "views DIR");
	dir = argv[1];
	kt_doing = "get_view";
	get_view();
#if MPI_VERSION >= 4
	kt_doing = "large";
	large();
#endif
	told();
	if (!kt_rank)
		printf("ok views\n");
	kt_fini();
}
