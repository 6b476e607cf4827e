// Handles, modes and error handlers with the layer: handles DIR [SCENARIO]
//
// - communicators: MPI_COMM_SELF, dup'ed and split communicators, two files in turns, one file opened twice
// - modes: access modes that contradict each other, EXCL, APPEND, DELETE_ON_CLOSE, SEQUENTIAL (the MPI library's)
// - split: split collectives begun twice, ended without a begin, ended as the other kind
// - datareps: external32 and internal go to the MPI library, and back
// - handlers: each error is told to the file's handler once
// - forgiven: an error handler makes a success of a failed open: what is written to no file goes nowhere
// - bottom: MPI_BOTTOM with absolute addresses
// - hints: set_info and set_view's info: rank 0's hold for all, what cannot be used is ignored, the file goes on
// - ways: which collective calls are exchanged and which go direct: by the rule, by hints; files are named for it
// - elsewhere: a file on no kairan mount is the MPI library's (with KAIRAN_MPIIO=auto, on a local directory)
// - passed_over: one rank has no descriptor left for the layer: the file is the MPI library's on all ranks, and that
//   rank says so
// - disagree: one rank's environment says off: the file is the MPI library's on all ranks (first, in a process of its
//   own)
// - fatal: a file with MPI_ERRORS_ARE_FATAL: the job ends (exit status not 0)
// - abandoned: MPI_Finalize with a file open, which holds what was written
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kt.h"

static const char *dir;
static int handled;

static MPI_File open_on(MPI_Comm comm, const char *name, int mode)
{
	MPI_File file;
	KT_OK(MPI_File_open(comm, kt_path(dir, name), mode, MPI_INFO_NULL, &file));
	KT_CHECK(kt_is_layers(file), "the layer does not handle %s", name);
	return file;
}

static void sync_barrier_sync(MPI_File file)
{
	KT_OK(MPI_File_sync(file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_sync(file));
}

// Every rank's own 1000 bytes, one after the other.
static void write_own(MPI_File file, int rank, int seed)
{
	unsigned char bytes[1000];
	kt_fill(bytes, sizeof bytes, (uint64_t)(1000 * seed + rank));
	KT_OK(MPI_File_write_at_all(file, 1000 * rank, bytes, 1000, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void check_all(MPI_File file, int ranks, int seed)
{
	unsigned char expected[1000], got[1000];
	for (int rank = 0; rank < ranks; rank++) {
		kt_fill(expected, sizeof expected, (uint64_t)(1000 * seed + rank));
		KT_OK(MPI_File_read_at_all(file, 1000 * rank, got, 1000, MPI_BYTE, MPI_STATUS_IGNORE));
		kt_same_bytes(got, expected, sizeof got, "a rank's bytes");
	}
}

static void communicators(void)
{
	const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
	MPI_Comm dup, half;
	char name[64];
	int rank, size;
	snprintf(name, sizeof name, "self-%d", kt_rank);
	MPI_File self = open_on(MPI_COMM_SELF, name, mode | MPI_MODE_DELETE_ON_CLOSE);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	MPI_Comm_split(MPI_COMM_WORLD, kt_rank % 2, -kt_rank, &half);
	MPI_Comm_rank(half, &rank);
	MPI_Comm_size(half, &size);
	MPI_File a = open_on(dup, "a", mode), b = open_on(MPI_COMM_WORLD, "b", mode),
		 again = open_on(MPI_COMM_WORLD, "a", mode);
	snprintf(name, sizeof name, "half-%d", kt_rank % 2);
	MPI_File part = open_on(half, name, mode);
	MPI_Comm_free(&half); // the files have their own
	MPI_Comm_free(&dup);
	for (int turn = 0; turn < 2; turn++) {
		write_own(a, kt_rank, 1 + turn);
		write_own(self, 0, 50 + kt_rank + turn);
		write_own(b, kt_rank, 100 + turn);
		write_own(part, rank, 150 + 10 * (kt_rank % 2) + turn);
		sync_barrier_sync(a);
		check_all(again, kt_size, 1 + turn);
		check_all(self, 1, 50 + kt_rank + turn);
		write_own(again, kt_rank, 200 + turn);
		sync_barrier_sync(b);
		check_all(b, kt_size, 100 + turn);
		KT_OK(MPI_File_sync(part));
		check_all(part, size, 150 + 10 * (kt_rank % 2) + turn);
		sync_barrier_sync(again);
		check_all(a, kt_size, 200 + turn);
	}
	KT_OK(MPI_File_close(&again));
	write_own(a, kt_rank, 7);
	check_all(b, kt_size, 101);
	KT_OK(MPI_File_close(&part));
	KT_OK(MPI_File_close(&b));
	KT_OK(MPI_File_close(&a));
	KT_OK(MPI_File_close(&self));
	snprintf(name, sizeof name, "self-%d", kt_rank);
	KT_CHECK(access(kt_posix_path(dir, name), F_OK), "%s was to go at its close", name);
}

static void modes(void)
{
	static const int wrong[] = {MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_MODE_RDONLY | MPI_MODE_RDWR,
		MPI_MODE_CREATE | MPI_MODE_RDONLY, MPI_MODE_EXCL | MPI_MODE_RDONLY, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL,
		MPI_MODE_CREATE};
	unsigned char bytes[100], got[100];
	MPI_File file;
	MPI_Offset at;
	int flag;
	for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++)
		KT_CHECK(MPI_File_open(MPI_COMM_WORLD, kt_path(dir, "modes"), wrong[i], MPI_INFO_NULL, &file) !=
				MPI_SUCCESS,
			"mode %d is taken", wrong[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!kt_rank)
		unlink(kt_posix_path(dir, "modes")); // OMPIO may have made it
	MPI_Barrier(MPI_COMM_WORLD);
	file = open_on(
		MPI_COMM_WORLD, "modes", MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY | MPI_MODE_UNIQUE_OPEN);
	write_own(file, kt_rank, 1);
	KT_OK(MPI_File_close(&file));
	KT_FAILS(MPI_ERR_FILE_EXISTS,
		MPI_File_open(MPI_COMM_WORLD, kt_path(dir, "modes"), MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR,
			MPI_INFO_NULL, &file));
	file = open_on(MPI_COMM_WORLD, "modes", MPI_MODE_RDWR | MPI_MODE_APPEND);
	KT_OK(MPI_File_get_position(file, &at));
	KT_CHECK(at == 1000 * kt_size, "append starts at %lld", (long long)at);
	check_all(file, kt_size, 1);
	KT_OK(MPI_File_get_atomicity(file, &flag));
	KT_CHECK(!flag, "atomic from the beginning");
	KT_OK(MPI_File_close(&file));
	file = open_on(MPI_COMM_WORLD, "modes", MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
	check_all(file, kt_size, 1);
	KT_CHECK(MPI_File_preallocate(file, 5000) != MPI_SUCCESS, "room in a file for reading only");
	KT_OK(MPI_File_close(&file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_CHECK(access(kt_posix_path(dir, "modes"), F_OK), "the file was to go at its close");
	MPI_Barrier(MPI_COMM_WORLD);
	// Sequential: the MPI library's, by the shared pointer.
	KT_OK(MPI_File_open(MPI_COMM_WORLD, kt_path(dir, "sequential"),
		MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
	KT_CHECK(!kt_is_layers(file), "the layer takes a sequential file");
	kt_fill(bytes, sizeof bytes, (uint64_t)kt_rank);
	KT_OK(MPI_File_write_ordered(file, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_close(&file));
	file = open_on(MPI_COMM_WORLD, "sequential", MPI_MODE_RDONLY);
	KT_OK(MPI_File_read_at(file, 100 * kt_rank, got, 100, MPI_BYTE, MPI_STATUS_IGNORE));
	kt_same_bytes(got, bytes, 100, "written in sequence");
	KT_OK(MPI_File_close(&file));
}

// Room ahead leaves the bytes, never shrinks, and what others write afterwards without a sync stays.
static void rooms(void)
{
	MPI_File file = open_on(MPI_COMM_WORLD, "rooms", MPI_MODE_CREATE | MPI_MODE_RDWR);
	MPI_Offset size;
	write_own(file, kt_rank, 3);
	KT_OK(MPI_File_preallocate(file, 1000 * kt_size + 5000));
	KT_OK(MPI_File_get_size(file, &size));
	KT_CHECK(size == 1000 * kt_size + 5000, "%lld bytes", (long long)size);
	MPI_Barrier(MPI_COMM_WORLD);
	write_own(file, kt_rank, 4);
	KT_OK(MPI_File_preallocate(file, 10));
	sync_barrier_sync(file);
	check_all(file, kt_size, 4);
	KT_OK(MPI_File_get_size(file, &size));
	KT_CHECK(size == 1000 * kt_size + 5000, "%lld bytes in the end", (long long)size);
	KT_OK(MPI_File_close(&file));
}

static void split(void)
{
	MPI_File file = open_on(MPI_COMM_WORLD, "split", MPI_MODE_CREATE | MPI_MODE_RDWR);
	unsigned char bytes[1000], got[1000];
	MPI_Status status;
	int count;
	kt_fill(bytes, sizeof bytes, 5000 + (uint64_t)kt_rank);
	KT_CHECK(MPI_File_write_all_end(file, bytes, &status) != MPI_SUCCESS, "an end without a begin");
	KT_OK(MPI_File_write_at_all_begin(file, 1000 * kt_rank, bytes, 1000, MPI_BYTE));
	KT_CHECK(MPI_File_read_at_all_begin(file, 0, got, 10, MPI_BYTE) != MPI_SUCCESS, "begun twice");
	KT_CHECK(MPI_File_read_at_all_end(file, got, &status) != MPI_SUCCESS, "a write ended as a read");
	KT_OK(MPI_File_write_at_all_end(file, bytes, &status));
	MPI_Get_count(&status, MPI_BYTE, &count);
	KT_CHECK(count == 1000, "%d bytes", count);
	KT_CHECK(MPI_File_write_at_all_end(file, bytes, &status) != MPI_SUCCESS, "ended twice");
	sync_barrier_sync(file);
	KT_OK(MPI_File_read_at_all_begin(file, 1000 * kt_rank, got, 1000, MPI_BYTE));
	KT_OK(MPI_File_read_at_all_end(file, got, MPI_STATUS_IGNORE));
	kt_same_bytes(got, bytes, sizeof got, "split");
	KT_OK(MPI_File_close(&file));
}

// Whether the library knows another representation is its own affair; after it all is ours again, with the pointer at
// 0.
static void datareps(void)
{
	static const char *const names[] = {"external32", "internal"};
	MPI_File file = open_on(MPI_COMM_WORLD, "datareps", MPI_MODE_CREATE | MPI_MODE_RDWR);
	for (int i = 0; i < 2; i++) {
		int value = 0x01020304 * (kt_rank + 1), got = 0, code;
		MPI_Offset at;
		MPI_Aint extent;
		code = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, names[i], MPI_INFO_NULL);
		if (code == MPI_SUCCESS) {
			KT_OK(MPI_File_seek(file, kt_rank, MPI_SEEK_SET));
			KT_OK(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
			KT_OK(MPI_File_get_position(file, &at));
			KT_CHECK(at == kt_rank + 1, "position %lld", (long long)at);
			sync_barrier_sync(file);
			KT_OK(MPI_File_read_at_all(file, kt_rank, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
			KT_CHECK(got == value, "%s: %x instead of %x", names[i], got, value);
			KT_OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
			KT_CHECK(extent == 4, "%s: extent %lld", names[i], (long long)extent);
		}
		if (!kt_rank)
			printf("-- %s: %s\n", names[i], code == MPI_SUCCESS ? "known" : "refused by the MPI library");
		KT_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
		KT_OK(MPI_File_get_position(file, &at));
		KT_CHECK(at == 0 && kt_is_layers(file), "position %lld", (long long)at);
		MPI_Barrier(MPI_COMM_WORLD);
		write_own(file, kt_rank, 20 + i);
		sync_barrier_sync(file);
		check_all(file, kt_size, 20 + i);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	KT_OK(MPI_File_close(&file));
}

static void note_error(MPI_File *file, int *code, ...)
{
	(void)file, (void)code;
	handled++;
}

static void forgive(MPI_File *file, int *code, ...)
{
	(void)file;
	*code = MPI_SUCCESS;
}

static void forgiven(void)
{
	char name[20];
	snprintf(name, sizeof name, "forgiven%d", kt_rank);
	MPI_File file = open_on(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR), none;
	MPI_Errhandler handler, before;
	MPI_Offset size;
	KT_OK(MPI_File_set_size(file, 0)); // of an earlier run
	MPI_File_create_errhandler(forgive, &handler);
	KT_OK(MPI_File_get_errhandler(MPI_FILE_NULL, &before));
	KT_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
	(void)MPI_File_open(MPI_COMM_SELF, kt_path(dir, name), MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR,
		MPI_INFO_NULL, &none);
	KT_CHECK(none == MPI_FILE_NULL, "a failed open gives a file");
	(void)MPI_File_write_at(none, 0, "bytes", 5, MPI_BYTE, MPI_STATUS_IGNORE);
	KT_OK(MPI_File_set_errhandler(MPI_FILE_NULL, before));
	MPI_Errhandler_free(&before);
	MPI_Errhandler_free(&handler);
	KT_OK(MPI_File_get_size(file, &size));
	KT_CHECK(size == 0, "a write to no file has gone into one");
	KT_OK(MPI_File_close(&file));
}

static void handlers(void)
{
	MPI_File file = open_on(MPI_COMM_WORLD, "handlers", MPI_MODE_CREATE | MPI_MODE_WRONLY);
	MPI_Errhandler handler;
	MPI_Request request;
	MPI_Offset at;
	char bytes[10];
	KT_FAILS(MPI_ERR_ACCESS,
		MPI_File_read_at(file, 0, bytes, 10, MPI_BYTE, MPI_STATUS_IGNORE)); // files return errors by default
	MPI_File_create_errhandler(note_error, &handler);
	KT_OK(MPI_File_set_errhandler(file, handler));
	MPI_Errhandler_free(&handler);
	static const char *const calls[] = {"read_at", "read_all", "write_at", "write", "iwrite", "iread_at_all",
		"seek", "write_all_end", "preallocate"};
	for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++) {
		int code = MPI_SUCCESS;
		handled = 0;
		switch (i) {
		case 0:
			code = MPI_File_read_at(file, 0, bytes, 10, MPI_BYTE, MPI_STATUS_IGNORE);
			break;
		case 1:
			code = MPI_File_read_all(file, bytes, 10, MPI_BYTE, MPI_STATUS_IGNORE);
			break;
		case 2:
			code = MPI_File_write_at(file, -1, bytes, 10, MPI_BYTE, MPI_STATUS_IGNORE);
			break;
		case 3:
			code = MPI_File_write(file, bytes, -1, MPI_BYTE, MPI_STATUS_IGNORE);
			break;
		case 4:
			code = MPI_File_iwrite(file, bytes, 1, MPI_DATATYPE_NULL, &request);
			break;
		case 5:
			code = MPI_File_iread_at_all(file, 0, bytes, 10, MPI_BYTE, &request);
			break;
		case 6:
			code = MPI_File_seek(file, -5, MPI_SEEK_SET);
			break;
		case 7:
			code = MPI_File_write_all_end(file, bytes, MPI_STATUS_IGNORE);
			break;
		default:
			code = MPI_File_preallocate(file, -5);
		}
		KT_CHECK(code != MPI_SUCCESS && handled == 1, "%s: %s, handler called %d times", calls[i],
			kt_class_name(code), handled);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	KT_OK(MPI_File_get_position(file, &at));
	KT_CHECK(at == 0, "errors moved the pointer to %lld", (long long)at);
	KT_OK(MPI_File_close(&file));
}

static void bottom(void)
{
	MPI_File file = open_on(MPI_COMM_WORLD, "bottom", MPI_MODE_CREATE | MPI_MODE_RDWR);
	unsigned char *pieces[3], *got = kt_alloc(300);
	MPI_Aint places[3];
	MPI_Datatype type;
	for (int i = 0; i < 3; i++) {
		pieces[i] = kt_alloc(100);
		kt_fill(pieces[i], 100, (uint64_t)(10 * kt_rank + i));
		MPI_Get_address(pieces[i], &places[i]);
	}
	MPI_Type_create_hindexed_block(3, 100, places, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	KT_OK(MPI_File_write_at_all(file, 300 * kt_rank, MPI_BOTTOM, 1, type, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_read_at(file, 300 * kt_rank, got, 300, MPI_BYTE, MPI_STATUS_IGNORE));
	for (int i = 0; i < 3; i++) {
		kt_same_bytes(got + 100 * i, pieces[i], 100, "a piece");
		memset(pieces[i], 0, 100);
	}
	KT_OK(MPI_File_read_at_all(file, 300 * kt_rank, MPI_BOTTOM, 1, type, MPI_STATUS_IGNORE));
	for (int i = 0; i < 3; i++) {
		kt_same_bytes(pieces[i], got + 100 * i, 100, "a piece read back");
		free(pieces[i]);
	}
	MPI_Type_free(&type);
	free(got);
	KT_OK(MPI_File_close(&file));
}

static void check_hint(MPI_File file, const char *key, const char *expected)
{
	MPI_Info used;
	char value[64] = "";
	int flag;
	KT_OK(MPI_File_get_info(file, &used));
	MPI_Info_get(used, key, sizeof value - 1, value, &flag);
	MPI_Info_free(&used);
	KT_CHECK(flag && !strcmp(value, expected), "%s is '%s' instead of '%s'", key, value, expected);
}

static MPI_Info info_of(const char *key, const char *value, const char *key2, const char *value2)
{
	MPI_Info info;
	MPI_Info_create(&info);
	MPI_Info_set(info, key, value);
	MPI_Info_set(info, key2, value2);
	return info;
}

static void hints(void)
{
	MPI_File file = open_on(MPI_COMM_WORLD, "hints", MPI_MODE_CREATE | MPI_MODE_RDWR);
	check_hint(file, "striping_unit", "4194304");
	check_hint(file, "cb_buffer_size", "524288");
	MPI_Info info = info_of("kairan_slots", kt_rank ? "5" : "2", "romio_cb_write", "enable");
	KT_OK(MPI_File_set_info(file, info));
	MPI_Info_free(&info);
	check_hint(file, "kairan_slots", "2");
	check_hint(file, "romio_cb_write", "enable");
	check_hint(file, "cb_config_list", "*:1");
	write_own(file, kt_rank, 1);
	info = info_of("kairan_slots", "0", "kairan_order", "sideways");
	KT_OK(MPI_File_set_info(file, info));
	MPI_Info_free(&info);
	check_hint(file, "kairan_slots", "2");
	check_hint(file, "kairan_order", "nd_rank_shift");
	info = info_of("striping_unit", "4096", "kairan_order", kt_rank ? "rank" : "pairwise");
	KT_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", info));
	MPI_Info_free(&info);
	sync_barrier_sync(file);
	check_all(file, kt_size, 1);
	write_own(file, kt_rank, 2);
	check_hint(file, "striping_unit", "4096");
	check_hint(file, "kairan_order", "pairwise");
	sync_barrier_sync(file);
	check_all(file, kt_size, 2);
	KT_OK(MPI_File_close(&file));
}

// Regions of rank 0 have LENGTH0 bytes, others' LENGTH; those of a rank lie STRIDE apart, and the first ones of two ranks RANKS.
// Written and read back.
static void one_way(
	MPI_Comm comm, const char *name, MPI_Info hints, int length0, int length, int64_t stride, int64_t ranks)
{
	enum { REGIONS = 4 };
	int rank;
	MPI_Comm_rank(comm, &rank);
	MPI_File file = open_on(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
	MPI_Datatype type;
	int mine = rank ? length : length0;
	size_t bytes = (size_t)(REGIONS * mine);
	unsigned char *out = kt_alloc(bytes), *in = kt_alloc(bytes);
	kt_fill(out, bytes, (uint64_t)(rank + 1));
	MPI_Type_create_hvector(REGIONS, mine, (MPI_Aint)stride, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	KT_OK(MPI_File_set_view(file, ranks * rank, MPI_BYTE, type, "native", hints));
	KT_OK(MPI_File_write_at_all(file, 0, out, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_sync(file));
	MPI_Barrier(comm);
	KT_OK(MPI_File_sync(file));
	KT_OK(MPI_File_read_at_all(file, 0, in, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE));
	kt_same_bytes(in, out, bytes, name);
	KT_OK(MPI_File_close(&file));
	MPI_Type_free(&type);
	free(out);
	free(in);
}

// Ranks count as those of NODES nodes, in files that are opened from now on.
static void pretend_nodes(int nodes)
{
	char name[32];
	snprintf(name, sizeof name, "pretended%d", kt_rank % nodes);
	KT_CHECK(!setenv("KAIRAN_MPIIO_NODE", name, 1), "no environment");
}

static void ways(void)
{
	MPI_Info by_rule = info_of("kairan_direct_run", "1000", "kairan_summary", "1");
	MPI_Info always = info_of("romio_cb_write", "enable", "romio_cb_read", "enable");
	MPI_Info never = info_of("romio_cb_write", "disable", "romio_cb_read", "disable");
	MPI_Info_set(always, "kairan_summary", "1");
	MPI_Info_set(never, "kairan_summary", "1");
	int64_t gap = 4096 * kt_size, far = (INT64_C(1) << 30) / 2 * kt_size;
	pretend_nodes(2);
	one_way(MPI_COMM_WORLD, "direct-long", by_rule, 1000, 1000, gap, 4096);
	one_way(MPI_COMM_WORLD, "direct-apart", by_rule, 10, 10, 4096, 4 * 4096);
	one_way(MPI_COMM_WORLD, "exchanged-meeting", by_rule, 10, 10, 4096, 3 * 4096 - 2048);
	one_way(MPI_COMM_WORLD, "exchanged-short", by_rule, 999, 999, gap, 4096);
	one_way(MPI_COMM_WORLD, "exchanged-one-short", by_rule, 999, 3000, gap, 4096);
	one_way(MPI_COMM_WORLD, "exchanged-always", always, 2000, 2000, gap, 4096);
	one_way(MPI_COMM_WORLD, "direct-never", never, 10, 10, gap, 4096);
	one_way(MPI_COMM_WORLD, "direct-sparse", always, 10, 10, far, far / kt_size);
	if (!kt_rank)
		one_way(MPI_COMM_SELF, "direct-alone", by_rule, 10, 10, 4096, 0);
	pretend_nodes(1);
	one_way(MPI_COMM_WORLD, "exchanged-write", by_rule, 999, 999, gap, 4096);
	one_way(MPI_COMM_WORLD, "exchanged-always-one-node", always, 999, 999, gap, 4096);
	unsetenv("KAIRAN_MPIIO_NODE");
	MPI_Info_free(&by_rule);
	MPI_Info_free(&always);
	MPI_Info_free(&never);
}

// ---- each ends or shapes the process: on their own ----

static void elsewhere(void)
{
	MPI_File file;
	KT_OK(MPI_File_open(
		MPI_COMM_WORLD, kt_path(dir, "elsewhere"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	KT_CHECK(!kt_is_layers(file), "the layer takes a file that is on no mount");
	write_own(file, kt_rank, 1);
	sync_barrier_sync(file);
	check_all(file, kt_size, 1);
	KT_OK(MPI_File_close(&file));
}

// MPI's own open takes the only descriptor that is left.
static void passed_over(void)
{
	struct rlimit before, limit;
	MPI_File file;
	KT_CHECK(!getrlimit(RLIMIT_NOFILE, &before), "no limit");
	write_own(file = open_on(MPI_COMM_WORLD, "passed_over", MPI_MODE_CREATE | MPI_MODE_RDWR), kt_rank, 1);
	KT_OK(MPI_File_close(&file)); // what the MPI library opens once for all is open now
	limit = before;
	limit.rlim_cur = (rlim_t)dup(0) + 1;
	close((int)limit.rlim_cur - 1);
	if (kt_rank == 1)
		KT_CHECK(!setrlimit(RLIMIT_NOFILE, &limit), "no limit");
	KT_OK(MPI_File_open(MPI_COMM_WORLD, kt_path(dir, "passed_over"), MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	KT_CHECK(!setrlimit(RLIMIT_NOFILE, &before), "no limit");
	KT_CHECK(!kt_is_layers(file), "the layer has the file, though rank 1 had no descriptor for it");
	check_all(file, kt_size, 1);
	KT_OK(MPI_File_close(&file));
}

static void disagree(void)
{
	MPI_File file;
	if (kt_rank == 1)
		setenv("KAIRAN_MPIIO", "off", 1);
	KT_OK(MPI_File_open(
		MPI_COMM_WORLD, kt_path(dir, "disagree"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	KT_CHECK(!kt_is_layers(file), "the file is the layer's though rank 1 is without it");
	write_own(file, kt_rank, 1);
	sync_barrier_sync(file);
	check_all(file, kt_size, 1);
	KT_OK(MPI_File_close(&file));
}

static void fatal(void)
{
	MPI_File file = open_on(MPI_COMM_WORLD, "fatal", MPI_MODE_CREATE | MPI_MODE_RDWR);
	char byte = 1;
	KT_OK(MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL));
	MPI_File_write_at_all(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
	printf("FAILED: a fatal error was not\n");
}

static void abandoned(void)
{
	MPI_File file = open_on(MPI_COMM_WORLD, "abandoned", MPI_MODE_CREATE | MPI_MODE_RDWR);
	MPI_Datatype type;
	unsigned char bytes[1000];
	kt_fill(bytes, sizeof bytes, (uint64_t)kt_rank);
	MPI_Type_vector(10, 100, 100 * kt_size, MPI_BYTE, &type);
	MPI_Type_commit(&type);
	KT_OK(MPI_File_set_view(file, 100 * kt_rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
	KT_OK(MPI_File_write_all(file, bytes, 1000, MPI_BYTE, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
		bool alone;
	} scenarios[] = {
		{"communicators", communicators, false},
		{"modes", modes, false},
		{"rooms", rooms, false},
		{"split", split, false},
		{"datareps", datareps, false},
		{"handlers", handlers, false},
		{"forgiven", forgiven, false},
		{"bottom", bottom, false},
		{"hints", hints, false},
		{"ways", ways, true},
		{"elsewhere", elsewhere, true},
		{"passed_over", passed_over, true},
		{"disagree", disagree, true},
		{"fatal", fatal, true},
		{"abandoned", abandoned, true},
	};
	int ran = 0;
	kt_init(&argc, &argv);
	KT_CHECK(argc == 2 || argc == 3, "handles DIR [SCENARIO]");
	dir = argv[1];
	for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
		if (argc == 3 ? strcmp(argv[2], scenarios[i].name) : scenarios[i].alone)
			continue;
		kt_doing = scenarios[i].name;
		double start = kt_now();
		scenarios[i].run();
		MPI_Barrier(MPI_COMM_WORLD);
		if (!kt_rank)
			printf("ok %s %.2f s\n", kt_doing, kt_now() - start);
		ran++;
	}
	KT_CHECK(ran, "no scenario %s", argv[2]);
	if (!kt_rank)
		printf("ok handles %s\n", argc == 3 ? argv[2] : "");
	kt_fini();
}
