// Random collective and independent I/O through random views against a model: random_io [-s SEED] [-e EPISODES] [-o
// OPS] [-n] [-w] DIR EXPECT
//
// Everything follows from the seed, on every rank. In an episode ranks open a file, set views that are random inside
// slots which belong to one rank each, and write and read with random memory types, counts (also none) and calls; views
// change after sync, barrier, sync. What was read, its counts, and the file as every node sees it after the close are
// compared with the model, and the models are left in EXPECT. -n: non-blocking collectives, too (MPI_THREAD_MULTIPLE).
// -w: views may overlap in collective writes, the highest rank wins (a rule of kairan's layer with
// romio_cb_write=enable).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kt.h"
#include "random_type.h"

enum { ROOM = 1 << 20, SLOT = 3000, MOST_RANKS = 64 };

static uint64_t common; // the state that all ranks share
static bool nonblocking, overlapping;
static char doing[256];

struct view {
	struct kt_view view;
	MPI_Datatype etype;
	int derived, etype_size;
};

// The view of each rank, and the model of the file.
static struct view views[MOST_RANKS];
static struct kt_model model;
static MPI_File file;
static MPI_File trial; // a file of this rank's own

// With LAYER_REQUIRED kairan's layer must have the file: some of these views are more than the MPI libraries can take.
static void open_file(MPI_Comm comm, const char *path, int more, MPI_File *ret_file)
{
	KT_OK(MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR | more, MPI_INFO_NULL, ret_file));
	KT_CHECK(!getenv("LAYER_REQUIRED") || kt_is_layers(*ret_file), "the layer does not handle %s", path);
}

static void free_view(struct view *view)
{
	if (view->view.positions) {
		MPI_Type_free(&view->view.filetype);
		kt_view_fini(&view->view);
		if (view->derived)
			MPI_Type_free(&view->etype);
	}
}

// Open MPI refuses some nested types as views; then all ranks take a plainer one in its place.
static void replace_refused(int64_t slot)
{
	int refused[MOST_RANKS] = {0};
	const struct view *mine = &views[kt_rank];
	refused[kt_rank] =
		MPI_File_set_view(trial, 0, mine->etype, mine->view.filetype, "native", MPI_INFO_NULL) != MPI_SUCCESS;
	MPI_Allreduce(MPI_IN_PLACE, refused, kt_size, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int rank = 0; rank < kt_size; rank++) {
		struct view *view = &views[rank];
		MPI_Datatype vector, filetype;
		if (!refused[rank])
			continue;
		MPI_Type_free(&view->view.filetype);
		kt_view_fini(&view->view);
		MPI_Type_vector(5, 3, 7, view->etype, &vector);
		MPI_Type_create_resized(vector, 0, (MPI_Aint)slot * kt_size, &filetype);
		MPI_Type_commit(&filetype);
		MPI_Type_free(&vector);
		kt_view_init(&view->view, slot * rank, view->etype, filetype);
	}
}

// Random contents inside slot `rank` of every group of slots.
static void make_views(void)
{
	for (int rank = 0; rank < kt_size; rank++) {
		struct view *view = &views[rank];
		MPI_Aint lb, extent;
		MPI_Datatype inner, filetype;
		free_view(view);
		view->etype = kt_random_etype(&common, &view->derived);
		MPI_Type_size(view->etype, &view->etype_size);
		inner = kt_random_file_type(&common, view->etype, SLOT);
		MPI_Type_get_extent(inner, &lb, &extent);
		KT_CHECK(
			!lb && extent <= SLOT * 4, "a type from %lld to %lld", (long long)lb, (long long)(lb + extent));
		// All slots have one size, a multiple of every etype's extent; types may get 4 times as large as asked
		// for.
		int64_t slot = (SLOT * 4 + 47) / 48 * 48;
		if (overlapping && kt_below(&common, 2)) {
			filetype = inner;
		} else {
			MPI_Type_create_resized(inner, 0, (MPI_Aint)slot * kt_size, &filetype);
			MPI_Type_commit(&filetype);
			MPI_Type_free(&inner);
		}
		MPI_Offset displacement = overlapping ? (MPI_Offset)kt_below(&common, 3000) : slot * rank;
		kt_view_init(&view->view, displacement, view->etype, filetype);
	}
	replace_refused((SLOT * 4 + 47) / 48 * 48);
}

static void set_view(const struct view *view)
{
	KT_OK(MPI_File_set_view(
		file, view->view.displacement, view->etype, view->view.filetype, "native", MPI_INFO_NULL));
}

static void sync_barrier_sync(void)
{
	KT_OK(MPI_File_sync(file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_sync(file));
}

// What one rank does in one operation.
struct access {
	MPI_Datatype memory;
	struct kt_view layout;  // of the memory
	int count;              // of memory
	uint64_t start, length; // data bytes of the view
	unsigned char *base, *origin;
	size_t room;
	unsigned char *packed; // the bytes in the order of the view
};

static void make_access(struct access *access, const struct view *view, uint64_t seed)
{
	int size;
	MPI_Aint lb, extent, true_lb, true_extent;
	access->memory = kt_random_memory_type(&common, view->etype, 2000);
	kt_view_init(&access->layout, 0, view->etype, access->memory);
	MPI_Type_size(access->memory, &size);
	MPI_Type_get_extent(access->memory, &lb, &extent);
	MPI_Type_get_true_extent(access->memory, &true_lb, &true_extent);
	// Not further than some filetypes into the file.
	uint64_t most = 3 * view->view.size / (uint64_t)size + 1;
	access->count = !kt_below(&common, 5) || (uint64_t)size > 6 * view->view.size ?
		0 :
		1 + (int)kt_below(&common, most < 20 ? most : 20);
	access->length = (uint64_t)access->count * (uint64_t)size;
	access->start =
		kt_below(&common, 2 * view->view.size / (uint64_t)view->etype_size + 1) * (uint64_t)view->etype_size;
	int64_t low = true_lb < 0 ? true_lb : 0,
		high = true_lb + true_extent + (access->count ? access->count - 1 : 0) * extent;
	low += extent < 0 ? extent * access->count : 0;
	access->room = (size_t)(high - low) + 64;
	access->origin = kt_alloc(access->room);
	access->base = access->origin - low;
	access->packed = kt_alloc(access->length);
	kt_fill(access->origin, access->room, seed);
	for (uint64_t i = 0; i < access->length; i++)
		access->packed[i] = access->base[kt_view_position(&access->layout, i)];
}

static void free_access(struct access *access)
{
	MPI_Type_free(&access->memory);
	kt_view_fini(&access->layout);
	free(access->origin);
	free(access->packed);
}

enum call { AT, POINTER, SPLIT_AT, SPLIT_POINTER, NONBLOCKING_AT, NONBLOCKING_POINTER, CALLS };

static int data_call(enum call call, bool writing, bool together, MPI_Offset at, struct access *a, MPI_Status *status)
{
	MPI_Request request;
	void *b = a->base;
	int n = a->count, code;
	MPI_Datatype t = a->memory;
	if (call % 2)
		KT_OK(MPI_File_seek(file, at, MPI_SEEK_SET));
	switch (call) {
	case AT:
		if (together)
			return writing ? MPI_File_write_at_all(file, at, b, n, t, status) :
					 MPI_File_read_at_all(file, at, b, n, t, status);
		return writing ? MPI_File_write_at(file, at, b, n, t, status) :
				 MPI_File_read_at(file, at, b, n, t, status);
	case POINTER:
		if (together)
			return writing ? MPI_File_write_all(file, b, n, t, status) :
					 MPI_File_read_all(file, b, n, t, status);
		return writing ? MPI_File_write(file, b, n, t, status) : MPI_File_read(file, b, n, t, status);
	case SPLIT_AT:
		KT_OK(writing ? MPI_File_write_at_all_begin(file, at, b, n, t) :
				MPI_File_read_at_all_begin(file, at, b, n, t));
		return writing ? MPI_File_write_at_all_end(file, b, status) : MPI_File_read_at_all_end(file, b, status);
	case SPLIT_POINTER:
		KT_OK(writing ? MPI_File_write_all_begin(file, b, n, t) : MPI_File_read_all_begin(file, b, n, t));
		return writing ? MPI_File_write_all_end(file, b, status) : MPI_File_read_all_end(file, b, status);
	case NONBLOCKING_AT:
		if (together)
			code = writing ? MPI_File_iwrite_at_all(file, at, b, n, t, &request) :
					 MPI_File_iread_at_all(file, at, b, n, t, &request);
		else
			code = writing ? MPI_File_iwrite_at(file, at, b, n, t, &request) :
					 MPI_File_iread_at(file, at, b, n, t, &request);
		break;
	default:
		if (together)
			code = writing ? MPI_File_iwrite_all(file, b, n, t, &request) :
					 MPI_File_iread_all(file, b, n, t, &request);
		else
			code = writing ? MPI_File_iwrite(file, b, n, t, &request) :
					 MPI_File_iread(file, b, n, t, &request);
	}
	return code ? code : MPI_Wait(&request, status);
}

static enum call random_call(bool together)
{
	if (!together)
		return (enum call[]){AT, POINTER, NONBLOCKING_AT, NONBLOCKING_POINTER}[kt_below(&common, 4)];
	return (enum call)kt_below(&common, nonblocking ? CALLS : NONBLOCKING_AT);
}

static void check_read(struct access *access, const struct view *view, const MPI_Status *status, uint64_t seed)
{
	unsigned char *expected = kt_alloc(access->room), *data = kt_alloc(access->length);
	int count;
	size_t there = kt_model_read(&model, &view->view, access->start, data, access->length);
	MPI_Get_elements(status, MPI_BYTE, &count);
	KT_CHECK((size_t)count == there, "a read of %llu bytes gave %d, %zu are before the end of %llu",
		(unsigned long long)access->length, count, there, (unsigned long long)model.size);
	kt_fill(expected, access->room, seed);
	int64_t shift = access->base - access->origin;
	// What lies beyond the end is nobody's: the library may have cleared it.
	for (size_t i = there; i < access->length; i++) {
		int64_t at = shift + kt_view_position(&access->layout, i);
		expected[at] = access->origin[at];
	}
	for (size_t i = 0; i < there; i++)
		expected[shift + kt_view_position(&access->layout, i)] = data[i];
	kt_same_bytes(access->origin, expected, access->room, "the buffer after a read");
	free(expected);
	free(data);
}

// All ranks' accesses are made by every rank, in the same order; each does its own.
static void operation(uint64_t number)
{
	bool writing = kt_below(&common, 2), together = kt_below(&common, 3) || overlapping,
	     again = kt_below(&common, 2);
	enum call call = random_call(together), second = random_call(together);
	uint64_t seeds = kt_random(&common);
	struct access mine = {0};
	MPI_Status status;
	int count;
	snprintf(doing + strlen(doing), sizeof doing - strlen(doing), " | %llu: %s %s, call %d%s",
		(unsigned long long)number, together ? "collective" : "independent", writing ? "write" : "read", call,
		writing && again ? ", read again" : "");
	for (int rank = 0; rank < kt_size; rank++) {
		struct access access;
		make_access(&access, &views[rank], seeds + (uint64_t)rank);
		if (writing)
			kt_model_write(&model, &views[rank].view, access.start, access.packed, access.length);
		if (rank == kt_rank)
			mine = access;
		else
			free_access(&access);
	}
	MPI_Offset at = (MPI_Offset)(mine.start / (uint64_t)views[kt_rank].etype_size);
	if (together || mine.count) {
		if (!writing)
			sync_barrier_sync();
		KT_OK(data_call(call, writing, together, at, &mine, &status));
		if (writing) {
			MPI_Get_elements(&status, MPI_BYTE, &count);
			KT_CHECK((uint64_t)count == mine.length, "a write of %llu bytes gave %d",
				(unsigned long long)mine.length, count);
		} else {
			check_read(&mine, &views[kt_rank], &status, seeds + (uint64_t)kt_rank);
		}
	} else if (!writing) {
		sync_barrier_sync();
	}
	// One's own bytes without any sync; with overlap they may have become another's.
	if (writing && again && (together || mine.count) && !overlapping) {
		kt_fill(mine.origin, mine.room, seeds);
		KT_OK(data_call(second, false, together, at, &mine, &status));
		check_read(&mine, &views[kt_rank], &status, seeds);
	}
	free_access(&mine);
	// Without this a read that reaches the end could see it move, and overlapping writes of two calls would
	// conflict.
	if (overlapping || !writing)
		sync_barrier_sync();
}

static void episode(const char *dir, const char *expect, uint64_t seed, int number, int ops)
{
	char name[64];
	MPI_Offset size;
	snprintf(name, sizeof name, "random-%llu-%d", (unsigned long long)seed, number);
	kt_model_init(&model, ROOM + (uint64_t)SLOT * 48 * (uint64_t)kt_size);
	common = seed * 1000003 + (uint64_t)number;
	if (!kt_rank)
		unlink(kt_posix_path(dir, name));
	MPI_Barrier(MPI_COMM_WORLD);
	open_file(MPI_COMM_WORLD, kt_path(dir, name), 0, &file);
	for (int op = 0; op < ops; op++) {
		if (op % 4 == 0) {
			snprintf(doing, sizeof doing, "seed %llu, episode %d", (unsigned long long)seed, number);
			sync_barrier_sync();
			if (!kt_below(&common, 4)) {
				uint64_t to = kt_below(&common, model.size + 5000);
				KT_OK(MPI_File_set_size(file, (MPI_Offset)to));
				kt_model_resize(&model, to);
				sync_barrier_sync();
			}
			KT_OK(MPI_File_get_size(file, &size));
			KT_CHECK((uint64_t)size == model.size, "the file has %lld bytes instead of %llu",
				(long long)size, (unsigned long long)model.size);
			MPI_Barrier(MPI_COMM_WORLD);
			make_views();
			set_view(&views[kt_rank]);
		}
		operation((uint64_t)op);
	}
	KT_OK(MPI_File_close(&file));
	kt_same(&model, kt_posix_path(dir, name));
	kt_save(&model, kt_path(expect, name));
	kt_model_fini(&model);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1;
	int episodes = 5, ops = 16, provided;
	kt_doing = doing;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &kt_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &kt_size);
	for (int option; (option = getopt(argc, argv, "s:e:o:nw")) != -1;) {
		switch (option) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'e':
			episodes = atoi(optarg);
			break;
		case 'o':
			ops = atoi(optarg);
			break;
		case 'n':
			nonblocking = true;
			break;
		case 'w':
			overlapping = true;
			break;
		default:
			return 2;
		}
	}
	KT_CHECK(optind + 2 == argc && kt_size <= MOST_RANKS,
		"random_io [-s SEED] [-e EPISODES] [-o OPS] [-n] [-w] DIR EXPECT");
	char name[32];
	snprintf(name, sizeof name, "trial-%d", kt_rank);
	open_file(MPI_COMM_SELF, kt_path(argv[optind], name), MPI_MODE_DELETE_ON_CLOSE, &trial);
	for (int i = 0; i < episodes; i++)
		episode(argv[optind], argv[optind + 1], seed, i, ops);
	for (int rank = 0; rank < kt_size; rank++)
		free_view(&views[rank]);
	KT_OK(MPI_File_close(&trial));
	if (!kt_rank)
		printf("ok random, seed %llu, %d episodes of %d operations\n", (unsigned long long)seed, episodes, ops);
	kt_fini();
}
