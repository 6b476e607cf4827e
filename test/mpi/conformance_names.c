// Scenarios about names, sizes and file pointers.
#include "conformance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static MPI_Offset size_of(MPI_File file)
{
	MPI_Offset size = -1;
	KT_OK(MPI_File_get_size(file, &size));
	return size;
}

void names(void)
{
	MPI_File file;
	const char *path = kt_path(dir, "names");
	KT_FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, hints, &file));
	file = open_all("names", MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR);
	KT_CHECK(size_of(file) == 0, "a new file has %lld bytes", (long long)size_of(file));
	KT_OK(MPI_File_close(&file));
	KT_CHECK(!access(kt_posix_path(dir, "names"), F_OK), "a closed file is gone: %s", strerror(errno));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_FAILS(MPI_ERR_FILE_EXISTS,
		MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, hints, &file));
	MPI_Barrier(MPI_COMM_WORLD);
	if (!kt_rank)
		KT_OK(MPI_File_delete(path, MPI_INFO_NULL));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_CHECK(access(kt_posix_path(dir, "names"), F_OK) && errno == ENOENT, "a deleted file is there");
	MPI_Barrier(MPI_COMM_WORLD);
	if (kt_rank == kt_size - 1)
		KT_FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(path, MPI_INFO_NULL));

	file = open_all("names", MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_WRONLY);
	KT_OK(MPI_File_write_at(file, kt_rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
	int mode = 0;
	KT_OK(MPI_File_get_amode(file, &mode));
	KT_CHECK(mode == (MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_WRONLY), "mode %d", mode);
	KT_OK(MPI_File_close(&file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_CHECK(access(kt_posix_path(dir, "names"), F_OK) && errno == ENOENT,
		"a file is there that was to go at its close");
	MPI_Barrier(MPI_COMM_WORLD);

	// Names that come and go on one node are seen so on the others.
	for (int turn = 0; turn < 6; turn++) {
		if (kt_rank == turn % kt_size) {
			KT_OK(MPI_File_open(
				MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, hints, &file));
			KT_OK(MPI_File_write(file, path, turn, MPI_BYTE, MPI_STATUS_IGNORE));
			KT_OK(MPI_File_close(&file));
		}
		MPI_Barrier(MPI_COMM_WORLD);
		file = open_all("names", MPI_MODE_RDONLY);
		KT_CHECK(size_of(file) == turn, "%lld bytes instead of %d", (long long)size_of(file), turn);
		KT_OK(MPI_File_close(&file));
		MPI_Barrier(MPI_COMM_WORLD);
		if (kt_rank == (turn + 1) % kt_size)
			KT_OK(MPI_File_delete(path, MPI_INFO_NULL));
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

void resize(void)
{
	MPI_File file = open_all("resize", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	kt_model_init(&model, 200000);
	prefill(file, &model, 50000);
	static const int sizes[] = {80000, 30000, 30000, 0, 1, 100000, 60000};
	unsigned char bytes[100], *got = kt_alloc(200000);
	for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
		KT_OK(MPI_File_set_size(file, sizes[i]));
		kt_model_resize(&model, (uint64_t)sizes[i]);
		KT_CHECK(size_of(file) == sizes[i], "%lld bytes instead of %d", (long long)size_of(file), sizes[i]);
		MPI_Barrier(MPI_COMM_WORLD); // before anybody's write changes it
		kt_fill(bytes, sizeof bytes, (uint64_t)i);
		if (kt_rank == i % kt_size)
			KT_OK(MPI_File_write_at(file, 20000 + 7 * i, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
		kt_model_put(&model, (uint64_t)(20000 + 7 * i), bytes, sizeof bytes);
		sync_barrier_sync(file);
		KT_CHECK(size_of(file) == (MPI_Offset)model.size, "%lld bytes instead of %lld",
			(long long)size_of(file), (long long)model.size);
		KT_OK(MPI_File_read_at(file, 0, got, (int)model.size, MPI_BYTE, MPI_STATUS_IGNORE));
		kt_same_bytes(got, model.bytes, (size_t)model.size, "after a change of size");
		MPI_Barrier(MPI_COMM_WORLD);
	}
	free(got);
	close_and_compare(&file, "resize", &model);
}

// Room ahead never shrinks a file, and leaves its bytes.
void preallocate(void)
{
	MPI_File file = open_all("preallocate", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	kt_model_init(&model, 150000);
	prefill(file, &model, 50001);
	KT_OK(MPI_File_preallocate(file, 150000));
	kt_model_resize(&model, 150000);
	KT_CHECK(size_of(file) == 150000, "%lld bytes after preallocation", (long long)size_of(file));
	MPI_Barrier(MPI_COMM_WORLD);
	KT_OK(MPI_File_preallocate(file, 1000));
	KT_CHECK(size_of(file) == 150000, "%lld bytes after preallocation of less", (long long)size_of(file));
	close_and_compare(&file, "preallocate", &model);
}

// Individual pointers, etypes, byte offsets, append.
void pointers(void)
{
	MPI_File file = open_all("pointers", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	MPI_Offset at;
	kt_model_init(&model, 100000);
	prefill(file, &model, 40000);
	// Etype of 4 bytes, every second one visible, after a header of 100 bytes.
	MPI_Datatype type = slot_type(8, 2), ints;
	MPI_Type_create_resized(MPI_INT, 0, 8, &ints);
	MPI_Type_commit(&ints);
	KT_OK(MPI_File_set_view(file, 100, MPI_INT, ints, "native", hints));
	KT_OK(MPI_File_seek(file, 10, MPI_SEEK_SET));
	KT_OK(MPI_File_seek(file, 5, MPI_SEEK_CUR));
	KT_OK(MPI_File_get_position(file, &at));
	KT_CHECK(at == 15, "position %lld", (long long)at);
	KT_OK(MPI_File_get_byte_offset(file, at, &at));
	KT_CHECK(at == 100 + 15 * 8, "byte %lld", (long long)at);
	int values[10];
	KT_OK(MPI_File_read(file, values, 10, MPI_INT, MPI_STATUS_IGNORE));
	for (int i = 0; i < 10; i++)
		kt_same_bytes(&values[i], model.bytes + 100 + (15 + i) * 8, 4, "an integer through the view");
	KT_OK(MPI_File_get_position(file, &at));
	KT_CHECK(at == 25, "position %lld after the read", (long long)at);
	// The views of two ranks differ, writes do not move the others' pointers.
	KT_OK(MPI_File_set_view(file, 8 * (kt_rank % 2), MPI_BYTE, type, "native", hints));
	KT_OK(MPI_File_get_position(file, &at));
	KT_CHECK(at == 0, "a new view starts at %lld", (long long)at);
	KT_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", hints));
	sync_barrier_sync(file);
	for (int rank = 0; rank < kt_size; rank++)
		kt_model_put(&model, (uint64_t)(1000 + 50 * rank), "0123456789", 10);
	KT_OK(MPI_File_seek(file, 1000 + 50 * kt_rank, MPI_SEEK_SET));
	KT_OK(MPI_File_write(file, "01234", 5, MPI_BYTE, MPI_STATUS_IGNORE));
	KT_OK(MPI_File_write(file, "56789", 5, MPI_BYTE, MPI_STATUS_IGNORE));
	MPI_Type_free(&ints);
	MPI_Type_free(&type);
	KT_OK(MPI_File_close(&file));
	file = open_all("pointers", MPI_MODE_APPEND | MPI_MODE_RDWR);
	KT_OK(MPI_File_get_position(file, &at));
	KT_CHECK(at == 40000, "append starts at %lld", (long long)at);
	MPI_Barrier(MPI_COMM_WORLD);
	if (kt_rank == kt_size - 1)
		KT_OK(MPI_File_write(file, "the end", 7, MPI_BYTE, MPI_STATUS_IGNORE));
	kt_model_put(&model, 40000, "the end", 7);
	close_and_compare(&file, "pointers", &model);
}

// The end of the file in etypes of the view.
void seek_end(void)
{
	MPI_File file = open_all("seek_end", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	MPI_Offset at;
	kt_model_init(&model, 40000);
	prefill(file, &model, 40000);
	MPI_Datatype ints;
	MPI_Type_create_resized(MPI_INT, 0, 8, &ints);
	MPI_Type_commit(&ints);
	KT_OK(MPI_File_set_view(file, 100, MPI_INT, ints, "native", hints));
	KT_OK(MPI_File_seek(file, -10, MPI_SEEK_END));
	KT_OK(MPI_File_get_position(file, &at));
	KT_CHECK(at == (40000 - 100 + 7) / 8 - 10, "10 before the end is %lld", (long long)at);
	MPI_Type_free(&ints);
	close_and_compare(&file, "seek_end", &model);
}

struct record {
	int rank, number;
	char filler[92];
};

static struct record record_of(int rank, int number)
{
	struct record record = {.rank = rank, .number = number};
	kt_fill(record.filler, sizeof record.filler, (uint64_t)(rank * 1000 + number));
	return record;
}

// One pointer for all: every record gets a place of its own, and is read once.
void shared(void)
{
	enum { RECORDS = 20 };
	MPI_File file = open_all("shared", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	MPI_Offset at;
	int total = RECORDS * kt_size, size = (int)sizeof(struct record);
	for (int i = 0; i < RECORDS; i++) {
		struct record record = record_of(kt_rank, i);
		KT_OK(MPI_File_write_shared(file, &record, size, MPI_BYTE, MPI_STATUS_IGNORE));
	}
	sync_barrier_sync(file);
	KT_OK(MPI_File_get_position_shared(file, &at));
	KT_CHECK(at == (MPI_Offset)total * size, "the shared pointer is at %lld, not %lld", (long long)at,
		(long long)total * size);
	KT_CHECK(size_of(file) == at, "%lld bytes", (long long)size_of(file));
	kt_model_init(&model, (uint64_t)at);
	model.size = model.room;
	KT_OK(MPI_File_read_at(file, 0, model.bytes, (int)at, MPI_BYTE, MPI_STATUS_IGNORE));
	int *last = kt_alloc((size_t)kt_size * sizeof *last);
	for (int i = 0; i < total; i++) {
		struct record record, expected;
		memcpy(&record, model.bytes + i * size, sizeof record);
		KT_CHECK(record.rank >= 0 && record.rank < kt_size && record.number >= 0 && record.number < RECORDS,
			"record %d is none", i);
		expected = record_of(record.rank, record.number);
		kt_same_bytes(&record, &expected, sizeof record, "a record");
		KT_CHECK(record.number == last[record.rank]++, "the records of rank %d are out of order", record.rank);
	}
	free(last);
	MPI_Barrier(MPI_COMM_WORLD); // the pointer was looked at by all
	KT_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
	int *times = kt_alloc((size_t)total * sizeof *times);
	for (int i = 0; i < RECORDS; i++) {
		struct record record;
		KT_OK(MPI_File_read_shared(file, &record, size, MPI_BYTE, MPI_STATUS_IGNORE));
		KT_CHECK(record.rank >= 0 && record.rank < kt_size && record.number >= 0 && record.number < RECORDS,
			"what was read is no record");
		times[record.rank * RECORDS + record.number]++;
	}
	MPI_Allreduce(MPI_IN_PLACE, times, total, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < total; i++)
		KT_CHECK(times[i] == 1, "record %d was read %d times", i, times[i]);
	free(times);
	close_and_compare(&file, "shared", &model);
}

// Collective accesses with the shared pointer are in the order of the ranks, whatever their lengths.
void ordered(void)
{
	enum { ROUNDS = 3 };
	MPI_File file = open_all("ordered", MPI_MODE_CREATE | MPI_MODE_RDWR);
	struct kt_model model;
	MPI_Offset at = 0;
	unsigned char bytes[2000], got[2000];
	kt_model_init(&model, (uint64_t)ROUNDS * (uint64_t)kt_size * sizeof bytes);
	for (int round = 0; round < ROUNDS; round++) {
		for (int rank = 0; rank < kt_size; rank++) {
			int length = (rank * 311 + round * 97) % 1500;
			kt_fill(bytes, (size_t)length, (uint64_t)(rank + 100 * round));
			kt_model_put(&model, (uint64_t)at, bytes, (size_t)length);
			at += length;
		}
		int length = (kt_rank * 311 + round * 97) % 1500;
		kt_fill(bytes, (size_t)length, (uint64_t)(kt_rank + 100 * round));
		KT_OK(MPI_File_write_ordered(file, bytes, length, MPI_BYTE, MPI_STATUS_IGNORE));
	}
	sync_barrier_sync(file);
	KT_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
	for (int round = 0; round < ROUNDS; round++) {
		int length = (kt_rank * 311 + round * 97) % 1500;
		kt_fill(bytes, (size_t)length, (uint64_t)(kt_rank + 100 * round));
		KT_OK(MPI_File_read_ordered(file, got, length, MPI_BYTE, MPI_STATUS_IGNORE));
		kt_same_bytes(got, bytes, (size_t)length, "read in order");
	}
	close_and_compare(&file, "ordered", &model);
}
