// Scenarios about data: whose bytes land where, and what a read returns.
#include "conformance.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1000, SLOTS = 60 };

static int count_of(const MPI_Status *status)
{
	int count;
	MPI_Get_count(status, MPI_BYTE, &count);
	return count;
}

static unsigned char *data_of(int rank, int part, size_t length)
{
	unsigned char *bytes = kt_alloc(length);
	kt_fill(bytes, length, (uint64_t)(rank + 1) * 1000003 + (uint64_t)part);
	return bytes;
}

// The views of all ranks over slots of `block` bytes, with one slot in `slots` that nobody owns when slots > ranks.
static void slot_view(struct kt_view *view, int rank, int block, int slots)
{
	kt_view_init(view, (MPI_Offset)rank * block, MPI_BYTE, slot_type(block, slots));
}

static void slot_view_end(struct kt_view *view)
{
	MPI_Type_free(&view->filetype);
	kt_view_fini(view);
}

static void model_part(struct kt_model *model, int block, int slots, int part, uint64_t start, size_t length)
{
	for (int rank = 0; rank < kt_size; rank++) {
		struct kt_view view;
		slot_view(&view, rank, block, slots);
		unsigned char *bytes = data_of(rank, part, length);
		kt_model_write(model, &view, start, bytes, length);
		free(bytes);
		slot_view_end(&view);
	}
}

// Every rank writes every N-th block at explicit offsets, reads those of the next rank.
void independent(void)
{
	MPI_File file = open_all("independent", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	MPI_Status status;
	kt_model_init(&model, (uint64_t)BLOCK * SLOTS * (uint64_t)kt_size);
	model_part(&model, BLOCK, kt_size, 0, 0, (size_t)BLOCK * SLOTS);
	unsigned char *mine = data_of(kt_rank, 0, (size_t)BLOCK * SLOTS), *got = kt_alloc(BLOCK);
	for (int i = 0; i < SLOTS; i++) {
		KT_OK(MPI_File_write_at(
			file, ((MPI_Offset)i * kt_size + kt_rank) * BLOCK, mine + i * BLOCK, BLOCK, MPI_BYTE, &status));
		KT_CHECK(count_of(&status) == BLOCK, "%d bytes written", count_of(&status));
	}
	sync_barrier_sync(file);
	for (int i = 0; i < SLOTS; i++) {
		MPI_Offset at = ((MPI_Offset)i * kt_size + (kt_rank + 1) % kt_size) * BLOCK;
		KT_OK(MPI_File_read_at(file, at, got, BLOCK, MPI_BYTE, &status));
		KT_CHECK(count_of(&status) == BLOCK, "%d bytes read", count_of(&status));
		kt_same_bytes(got, model.bytes + at, BLOCK, "the neighbour's block");
	}
	free(mine);
	free(got);
	close_and_compare(&file, "independent", &model);
}

// Views with holes, in calls that start in the middle of a block; who reads looks through the next rank's view.
static void through_views(const char *name, int block, bool together)
{
	MPI_File file = open_all(name, MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	struct kt_view view;
	MPI_Status status;
	int slots = kt_size + 1; // the last slot is nobody's
	size_t part = (size_t)block * SLOTS + (size_t)block / 3;
	kt_model_init(&model, (uint64_t)block * (2 * SLOTS + 3) * (uint64_t)slots);
	prefill(file, &model, (size_t)model.room);
	slot_view(&view, kt_rank, block, slots);
	KT_OK(MPI_File_set_view(file, view.displacement, MPI_BYTE, view.filetype, "native", hints));
	for (int i = 0; i < 2; i++) {
		unsigned char *mine = data_of(kt_rank, i, part);
		KT_OK(together ? MPI_File_write_all(file, mine, (int)part, MPI_BYTE, &status) :
				 MPI_File_write(file, mine, (int)part, MPI_BYTE, &status));
		KT_CHECK(count_of(&status) == (int)part, "%d of %zu bytes written", count_of(&status), part);
		model_part(&model, block, slots, i, (uint64_t)i * part, part);
		free(mine);
	}
	slot_view_end(&view);
	sync_barrier_sync(file);
	slot_view(&view, (kt_rank + 1) % kt_size, block, slots);
	KT_OK(MPI_File_set_view(file, view.displacement, MPI_BYTE, view.filetype, "native", hints));
	unsigned char *got = kt_alloc(2 * part), *expected = kt_alloc(2 * part);
	kt_model_read(&model, &view, 0, expected, 2 * part);
	KT_OK(together ? MPI_File_read_at_all(file, 0, got, (int)(2 * part), MPI_BYTE, &status) :
			 MPI_File_read_at(file, 0, got, (int)(2 * part), MPI_BYTE, &status));
	KT_CHECK(count_of(&status) == (int)(2 * part), "%d of %zu bytes read", count_of(&status), 2 * part);
	kt_same_bytes(got, expected, 2 * part, "read through the neighbour's view");
	free(got);
	free(expected);
	slot_view_end(&view);
	close_and_compare(&file, name, &model);
}

// Small blocks: the MPI libraries read, modify and write whole ranges under locks (data sieving).
void strided(void)
{
	through_views("strided", 100, false);
}

void collective(void)
{
	through_views("collective", 1500, true);
}

// Two collective writes one after the other, of the even and of the odd slots, with no sync between; then all is read.
void complementary(void)
{
	MPI_File file = open_all("complementary", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	struct kt_view view;
	MPI_Status status;
	int slots = 2 * kt_size;
	size_t part = (size_t)BLOCK * SLOTS;
	kt_model_init(&model, (uint64_t)BLOCK * SLOTS * (uint64_t)slots);
	MPI_Datatype type = slot_type(BLOCK, slots);
	for (int i = 0; i < 2; i++) {
		for (int rank = 0; rank < kt_size; rank++) {
			kt_view_init(&view, (MPI_Offset)(2 * rank + i) * BLOCK, MPI_BYTE, type);
			unsigned char *bytes = data_of(rank, i, part);
			kt_model_write(&model, &view, 0, bytes, part);
			free(bytes);
			kt_view_fini(&view);
		}
		unsigned char *mine = data_of(kt_rank, i, part);
		KT_OK(MPI_File_set_view(file, (MPI_Offset)(2 * kt_rank + i) * BLOCK, MPI_BYTE, type, "native", hints));
		KT_OK(MPI_File_write_all(file, mine, (int)part, MPI_BYTE, &status));
		free(mine);
	}
	MPI_Type_free(&type);
	unsigned char *got = kt_alloc((size_t)model.size);
	sync_barrier_sync(file);
	KT_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", hints));
	KT_OK(MPI_File_read_all(file, got, (int)model.size, MPI_BYTE, &status));
	kt_same_bytes(got, model.bytes, (size_t)model.size, "all that was written");
	free(got);
	close_and_compare(&file, "complementary", &model);
}

// Not contiguous in memory either; a rank without data takes part.
void memory(void)
{
	enum { PIECES = 300, PIECE = 70, STRIDE = 110 };
	MPI_File file = open_all("memory", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	struct kt_view view;
	MPI_Datatype type = memory_type(PIECES, PIECE, STRIDE);
	size_t part = PIECES * PIECE;
	kt_model_init(&model, (part + 2 * BLOCK) * (uint64_t)kt_size);
	for (int rank = 0; rank < kt_size - 1; rank++) {
		unsigned char *scattered = data_of(rank, 0, PIECES * STRIDE), *packed = kt_alloc(part);
		for (int i = 0; i < PIECES; i++)
			memcpy(packed + i * PIECE, scattered + i * STRIDE, PIECE);
		slot_view(&view, rank, BLOCK, kt_size - 1 ? kt_size - 1 : 1);
		kt_model_write(&model, &view, 0, packed, part);
		slot_view_end(&view);
		free(scattered);
		free(packed);
	}
	slot_view(&view, kt_rank, BLOCK, kt_size - 1 ? kt_size - 1 : 1);
	KT_OK(MPI_File_set_view(file, view.displacement, MPI_BYTE, view.filetype, "native", hints));
	unsigned char *mine = data_of(kt_rank, 0, PIECES * STRIDE), *got = kt_alloc(PIECES * STRIDE);
	int count = kt_rank < kt_size - 1;
	KT_OK(MPI_File_write_all(file, mine, count, type, MPI_STATUS_IGNORE));
	sync_barrier_sync(file);
	KT_OK(MPI_File_read_at_all(file, 0, got, count, type, MPI_STATUS_IGNORE));
	for (int i = 0; count && i < PIECES * STRIDE; i++) {
		unsigned char expected = i % STRIDE < PIECE ? mine[i] : 0;
		KT_CHECK(got[i] == expected, "byte %d of the buffer is %02x instead of %02x", i, got[i], expected);
	}
	free(mine);
	free(got);
	slot_view_end(&view);
	MPI_Type_free(&type);
	close_and_compare(&file, "memory", &model);
}

// begin and end, with computation between.
void split(void)
{
	MPI_File file = open_all("split", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	struct kt_view view;
	MPI_Status status;
	size_t part = (size_t)BLOCK * SLOTS;
	kt_model_init(&model, part * (uint64_t)kt_size);
	model_part(&model, BLOCK, kt_size, 0, 0, part);
	slot_view(&view, kt_rank, BLOCK, kt_size);
	KT_OK(MPI_File_set_view(file, view.displacement, MPI_BYTE, view.filetype, "native", hints));
	unsigned char *mine = data_of(kt_rank, 0, part), *got = kt_alloc(part);
	KT_OK(MPI_File_write_all_begin(file, mine, (int)part, MPI_BYTE));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_write_all_end(file, mine, &status));
	KT_CHECK(count_of(&status) == (int)part, "%d of %zu bytes written", count_of(&status), part);
	sync_barrier_sync(file);
	KT_OK(MPI_File_read_at_all_begin(file, 0, got, (int)part, MPI_BYTE));
	KT_OK(MPI_File_read_at_all_end(file, got, &status));
	KT_CHECK(count_of(&status) == (int)part, "%d of %zu bytes read", count_of(&status), part);
	kt_same_bytes(got, mine, part, "read in two steps");
	free(mine);
	free(got);
	slot_view_end(&view);
	close_and_compare(&file, "split", &model);
}

// Several independent operations under way at once.
void nonblocking(void)
{
	MPI_File file = open_all("nonblocking", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	MPI_Request requests[SLOTS];
	size_t part = (size_t)BLOCK * SLOTS;
	kt_model_init(&model, part * (uint64_t)kt_size);
	model_part(&model, BLOCK, kt_size, 0, 0, part);
	unsigned char *mine = data_of(kt_rank, 0, part), *got = kt_alloc(part);
	for (int i = 0; i < SLOTS; i++)
		KT_OK(MPI_File_iwrite_at(file, ((MPI_Offset)i * kt_size + kt_rank) * BLOCK, mine + i * BLOCK, BLOCK,
			MPI_BYTE, &requests[i]));
	KT_OK(MPI_Waitall(SLOTS, requests, MPI_STATUSES_IGNORE));
	sync_barrier_sync(file);
	int from = (kt_rank + 1) % kt_size;
	for (int i = 0; i < SLOTS; i++)
		KT_OK(MPI_File_iread_at(file, ((MPI_Offset)i * kt_size + from) * BLOCK, got + i * BLOCK, BLOCK,
			MPI_BYTE, &requests[i]));
	KT_OK(MPI_Waitall(SLOTS, requests, MPI_STATUSES_IGNORE));
	free(mine);
	mine = data_of(from, 0, part);
	kt_same_bytes(got, mine, part, "the neighbour's blocks");
	free(mine);
	free(got);
	close_and_compare(&file, "nonblocking", &model);
}

// Atomic mode: overlapping accesses happen one after the other, and are seen without any sync. The gaps between pieces
// are nobody's.
static void atomic_pieces(const char *name, int gap)
{
	enum { PIECES = 50, PIECE = 400, ROUNDS = 4 };
	MPI_File file = open_all(name, MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	int flag = 0, part = PIECES * PIECE;
	unsigned char *mine = kt_alloc((size_t)part), *got = kt_alloc((size_t)part);
	kt_model_init(&model, (uint64_t)PIECES * (PIECE + gap));
	prefill(file, &model, (size_t)model.room);
	KT_OK(MPI_File_set_atomicity(file, 1));
	KT_OK(MPI_File_get_atomicity(file, &flag));
	KT_CHECK(flag, "not atomic");
	struct kt_view view;
	MPI_Datatype one, type;
	MPI_Type_contiguous(PIECE, MPI_BYTE, &one);
	MPI_Type_create_resized(one, 0, PIECE + gap, &type);
	MPI_Type_commit(&type);
	MPI_Type_free(&one);
	KT_OK(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", hints));
	if (!kt_rank)
		KT_OK(MPI_File_write_at(file, 0, mine, part, MPI_BYTE, MPI_STATUS_IGNORE));
	MPI_Barrier(MPI_COMM_WORLD);
	// All write the same pieces while the odd ranks read them: whoever reads sees one rank's bytes only.
	for (int round = 0; round < ROUNDS; round++) {
		memset(mine, 16 * (round + 1) + kt_rank % 16, (size_t)part);
		if (kt_rank % 2)
			KT_OK(MPI_File_read_at(file, 0, got, part, MPI_BYTE, MPI_STATUS_IGNORE));
		KT_OK(MPI_File_write_at(file, 0, mine, part, MPI_BYTE, MPI_STATUS_IGNORE));
		for (int i = 1; kt_rank % 2 && i < part; i++)
			KT_CHECK(got[i] == got[0], "round %d: byte %d is %02x, byte 0 is %02x", round, i, got[i],
				got[0]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_read_at(file, 0, got, part, MPI_BYTE, MPI_STATUS_IGNORE));
	for (int i = 0; i < part; i++)
		KT_CHECK(got[i] == got[0] && got[0] / 16 == ROUNDS, "at the end byte %d is %02x, byte 0 is %02x", i,
			got[i], got[0]);
	MPI_Barrier(MPI_COMM_WORLD);
	// One writes, all others read, nothing between but a message.
	for (int writer = 0; writer < kt_size; writer++) {
		kt_fill(mine, (size_t)part, (uint64_t)writer + 99);
		if (kt_rank == writer)
			KT_OK(MPI_File_write_at(file, 0, mine, part, MPI_BYTE, MPI_STATUS_IGNORE));
		MPI_Barrier(MPI_COMM_WORLD);
		KT_OK(MPI_File_read_at(file, 0, got, part, MPI_BYTE, MPI_STATUS_IGNORE));
		kt_same_bytes(got, mine, (size_t)part, "what was just written");
		MPI_Barrier(MPI_COMM_WORLD);
	}
	kt_view_init(&view, 0, MPI_BYTE, type);
	kt_model_write(&model, &view, 0, mine, (size_t)part);
	kt_view_fini(&view);
	MPI_Type_free(&type);
	free(mine);
	free(got);
	close_and_compare(&file, name, &model);
}

void atomic(void)
{
	atomic_pieces("atomic", 0);
}

void atomic_strided(void)
{
	atomic_pieces("atomic_strided", 800);
}

// Bytes go from hand to hand: rank after rank rewrites the file, what the one before wrote is visible after sync,
// barrier, sync.
void syncs(void)
{
	MPI_File file = open_all("syncs", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	size_t length = 30000;
	kt_model_init(&model, length);
	unsigned char *got = kt_alloc(length);
	for (int turn = 0; turn < 2 * kt_size; turn++) {
		unsigned char *bytes = data_of(0, turn, length);
		size_t from = (size_t)turn * 37, count = length - 2 * from;
		if (kt_rank == turn % kt_size)
			KT_OK(MPI_File_write_at(
				file, (MPI_Offset)from, bytes + from, (int)count, MPI_BYTE, MPI_STATUS_IGNORE));
		kt_model_put(&model, from, bytes + from, count);
		sync_barrier_sync(file);
		KT_OK(MPI_File_read_at(file, 0, got, (int)model.size, MPI_BYTE, MPI_STATUS_IGNORE));
		kt_same_bytes(got, model.bytes, (size_t)model.size, "after a turn");
		free(bytes);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	free(got);
	close_and_compare(&file, "syncs", &model);
}

// Reads that end beyond the file say how much there was.
static void reads_beyond(const char *name, bool together)
{
	static const struct {
		int at, length, count;
	} reads[] = {{0, 20000, 10007}, {10000, 100, 7}, {10007, 5, 0}, {15000, 5, 0}, {10006, 1, 1}};
	MPI_File file = open_all(name, MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	MPI_Status status;
	kt_model_init(&model, 10007);
	prefill(file, &model, 10007);
	unsigned char *got = kt_alloc(20000);
	for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
		KT_OK(together ? MPI_File_read_at_all(file, reads[i].at, got, reads[i].length, MPI_BYTE, &status) :
				 MPI_File_read_at(file, reads[i].at, got, reads[i].length, MPI_BYTE, &status));
		KT_CHECK(count_of(&status) == reads[i].count, "read of %d at %d: %d bytes instead of %d",
			reads[i].length, reads[i].at, count_of(&status), reads[i].count);
		if (reads[i].count)
			kt_same_bytes(got, model.bytes + reads[i].at, (size_t)reads[i].count, "before the end");
	}
	free(got);
	close_and_compare(&file, name, &model);
}

void end_of_file(void)
{
	reads_beyond("end_of_file", false);
}

void end_of_file_all(void)
{
	reads_beyond("end_of_file_all", true);
}
