/* libkairan-mpiio against a model of every byte: random views, memory types, calls, hints and pretended nodes; data,
 * gaps, counts and the file pointer.
 *
 *     mpirun -n 4 layer FILE [SEED [STEPS]]      the library preloaded, KAIRAN_MPIIO=force
 *
 * Without the library it tests MPI's own I/O, unless LAYER_REQUIRED is set; LAYER_THREADS asks for MPI_THREAD_MULTIPLE;
 * with LAYER_NODES nodes are not pretended.  Every rank knows from MPI_Pack of numbered bytes where a type's bytes lie,
 * so the library's own reading of types plays no part in what is expected.  Prints the seed; exit status 0 and "layer:
 * right" if all is.
 */
#include "test/mpi/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- calls ---- */

enum way { ALL, AT_ALL, SPLIT, AT_SPLIT, I_ALL, I_AT_ALL, ALONE, AT_ALONE, I_ALONE, WAYS };
static const char *const way_names[] = {
	"_all", "_at_all", "_all_begin", "_at_all_begin", "i_all", "i_at_all", "", "_at", "i"};

static bool by_pointer(enum way way)
{
	return way == ALL || way == SPLIT || way == I_ALL || way == ALONE || way == I_ALONE;
}

static void finish(MPI_Request *request, MPI_Status *status)
{
	MPI_Wait(request, status);
}

static void do_write(MPI_File fh, enum way way, MPI_Offset at, const struct memory *m, MPI_Status *status)
{
	void *buffer = m->array + m->origin;
	MPI_Request request;

	switch (way) {
	case ALL:
		CHECK(MPI_File_write_all(fh, buffer, m->count, m->type, status));
		break;
	case AT_ALL:
		CHECK(MPI_File_write_at_all(fh, at, buffer, m->count, m->type, status));
		break;
	case SPLIT:
		CHECK(MPI_File_write_all_begin(fh, buffer, m->count, m->type));
		CHECK(MPI_File_write_all_end(fh, buffer, status));
		break;
	case AT_SPLIT:
		CHECK(MPI_File_write_at_all_begin(fh, at, buffer, m->count, m->type));
		CHECK(MPI_File_write_at_all_end(fh, buffer, status));
		break;
	case I_ALL:
		CHECK(MPI_File_iwrite_all(fh, buffer, m->count, m->type, &request));
		finish(&request, status);
		break;
	case I_AT_ALL:
		CHECK(MPI_File_iwrite_at_all(fh, at, buffer, m->count, m->type, &request));
		finish(&request, status);
		break;
	case ALONE:
		CHECK(MPI_File_write(fh, buffer, m->count, m->type, status));
		break;
	case AT_ALONE:
		CHECK(MPI_File_write_at(fh, at, buffer, m->count, m->type, status));
		break;
	default:
		CHECK(MPI_File_iwrite(fh, buffer, m->count, m->type, &request));
		finish(&request, status);
	}
}

static void do_read(MPI_File fh, enum way way, MPI_Offset at, const struct memory *m, MPI_Status *status)
{
	void *buffer = m->array + m->origin;
	MPI_Request request;

	switch (way) {
	case ALL:
		CHECK(MPI_File_read_all(fh, buffer, m->count, m->type, status));
		break;
	case AT_ALL:
		CHECK(MPI_File_read_at_all(fh, at, buffer, m->count, m->type, status));
		break;
	case SPLIT:
		CHECK(MPI_File_read_all_begin(fh, buffer, m->count, m->type));
		CHECK(MPI_File_read_all_end(fh, buffer, status));
		break;
	case AT_SPLIT:
		CHECK(MPI_File_read_at_all_begin(fh, at, buffer, m->count, m->type));
		CHECK(MPI_File_read_at_all_end(fh, buffer, status));
		break;
	case I_ALL:
		CHECK(MPI_File_iread_all(fh, buffer, m->count, m->type, &request));
		finish(&request, status);
		break;
	case I_AT_ALL:
		CHECK(MPI_File_iread_at_all(fh, at, buffer, m->count, m->type, &request));
		finish(&request, status);
		break;
	case ALONE:
		CHECK(MPI_File_read(fh, buffer, m->count, m->type, status));
		break;
	case AT_ALONE:
		CHECK(MPI_File_read_at(fh, at, buffer, m->count, m->type, status));
		break;
	default:
		CHECK(MPI_File_iread(fh, buffer, m->count, m->type, &request));
		finish(&request, status);
	}
}

static void check_count(const MPI_Status *status, const struct memory *m, int bytes)
{
	int size, count;
	MPI_Count elements;

	MPI_Type_size(m->type, &size);
	MPI_Get_elements_x(status, MPI_BYTE, &elements);
	if (elements != bytes)
		fail("the status says %ld bytes instead of %d", (long)elements, bytes);
	if (bytes % size == 0) {
		MPI_Get_count(status, m->type, &count);
		if (count != bytes / size)
			fail("the status says %d items instead of %d", count, bytes / size);
	}
}

static void check_position(MPI_File fh, MPI_Offset expected)
{
	MPI_Offset position;

	CHECK(MPI_File_get_position(fh, &position));
	if (position != expected)
		fail("the file pointer is at %ld instead of %ld", (long)position, (long)expected);
}

/* ---- one step: a view, a call, its result ---- */

static void set_view(MPI_File fh, const struct place *place, bool pointer)
{
	CHECK(MPI_File_set_view(fh, place->displacement, MPI_BYTE, place->filetype, "native", MPI_INFO_NULL));
	if (pointer)
		CHECK(MPI_File_seek(fh, place->start, draw(2) ? MPI_SEEK_SET : MPI_SEEK_CUR));
}

static void write_step(MPI_File fh, unsigned step)
{
	enum way way = (enum way)draw(WAYS);
	struct place place;
	struct memory memory;
	MPI_Status status;

	make_place(&place);
	make_memory(&memory, place.bytes);
	doing = way_names[way];
	set_view(fh, &place, by_pointer(way));
	memset(memory.array, UNTOUCHED, memory.span);
	for (int i = 0; i < place.bytes; i++)
		memory.array[(int64_t)memory.origin + memory.offsets[i]] = value(step, rank, i);
	do_write(fh, way, place.start, &memory, &status);
	check_count(&status, &memory, place.bytes);
	if (by_pointer(way))
		check_position(fh, place.start + place.bytes);
	model_write(step, place.offsets, place.bytes);
	free_memory(&memory);
	free_place(&place);
}

static void read_step(MPI_File fh)
{
	enum way way = (enum way)draw(WAYS);
	struct place place;
	struct memory memory;
	MPI_Status status;
	unsigned char *expected;
	int bytes = 0;

	make_place(&place);
	make_memory(&memory, place.bytes);
	doing = way_names[way];
	set_view(fh, &place, by_pointer(way));
	memset(memory.array, UNTOUCHED, memory.span);
	expected = malloc(memory.span);
	memset(expected, UNTOUCHED, memory.span);
	for (; bytes < place.bytes && place.offsets[bytes] < (int64_t)model_size; bytes++)
		expected[(int64_t)memory.origin + memory.offsets[bytes]] = model[place.offsets[bytes]];
	do_read(fh, way, place.start, &memory, &status);
	check_count(&status, &memory, bytes);
	if (by_pointer(way))
		check_position(fh, place.start + place.bytes);
	for (size_t i = 0; i < memory.span; i++)
		if (memory.array[i] != expected[i])
			fail("byte %ld of memory is %d instead of %d", (long)i, memory.array[i], expected[i]);
	free(expected);
	free_memory(&memory);
	free_place(&place);
}

/* Whether it is promised that the higher rank wins: an exchange by the library. */
static bool overlap_is_ordered(MPI_File fh)
{
	MPI_Info info;
	char value_of[MPI_MAX_INFO_VAL + 1] = "";
	int ours = 0, found = 0;

	CHECK(MPI_File_get_info(fh, &info));
	MPI_Info_get(info, "kairan_order", MPI_MAX_INFO_VAL, value_of, &ours);
	MPI_Info_get(info, "romio_cb_write", MPI_MAX_INFO_VAL, value_of, &found);
	MPI_Info_free(&info);
	return ours && found && strcmp(value_of, "enable") == 0;
}

static void check_library(MPI_File fh)
{
	MPI_Info info;
	char text[MPI_MAX_INFO_VAL + 1];
	int found = 0;

	CHECK(MPI_File_get_info(fh, &info));
	MPI_Info_get(info, "kairan_slots", MPI_MAX_INFO_VAL, text, &found);
	MPI_Info_free(&info);
	if (!found && getenv("LAYER_REQUIRED"))
		fail("the library does not handle the file");
}

/* Every rank writes the same bytes: the highest rank's stay. */
static void overlap_step(MPI_File fh, unsigned step)
{
	enum { BYTES = 30000 };
	int64_t *offsets = malloc(BYTES * sizeof(*offsets));
	unsigned char *bytes = malloc(BYTES);
	MPI_Status status;

	doing = "overlap";
	for (int i = 0; i < BYTES; i++) {
		offsets[i] = i + 100 * rank;
		bytes[i] = value(step, rank, i);
	}
	CHECK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	CHECK(MPI_File_write_at_all(fh, 100 * rank, bytes, BYTES, MPI_BYTE, &status));
	model_write(step, offsets, BYTES);
	free(offsets);
	free(bytes);
}

/* Two non-blocking collectives under way at once, completed in the other order, with a barrier in between. */
static void two_at_once(MPI_File fh, unsigned step)
{
	enum { BYTES = 5000 };
	unsigned char *bytes = malloc(2 * BYTES);
	int64_t *offsets = malloc(2 * BYTES * sizeof(*offsets));
	MPI_Request requests[2];
	MPI_Status status;

	doing = "two at once";
	for (int i = 0; i < 2 * BYTES; i++) {
		offsets[i] = (int64_t)i * ranks + rank;
		bytes[i] = value(step, rank, i);
	}
	MPI_Datatype cell;
	MPI_Type_create_resized(MPI_BYTE, 0, ranks, &cell);
	MPI_Type_commit(&cell);
	CHECK(MPI_File_set_view(fh, rank, MPI_BYTE, cell, "native", MPI_INFO_NULL));
	CHECK(MPI_File_iwrite_at_all(fh, 0, bytes, BYTES, MPI_BYTE, &requests[0]));
	CHECK(MPI_File_iwrite_at_all(fh, BYTES, bytes + BYTES, BYTES, MPI_BYTE, &requests[1]));
	if (rank % 2)
		MPI_Barrier(MPI_COMM_WORLD);
	CHECK(MPI_Wait(&requests[1], &status));
	CHECK(MPI_Wait(&requests[0], &status));
	if (rank % 2 == 0)
		MPI_Barrier(MPI_COMM_WORLD);
	model_write(step, offsets, 2 * BYTES);
	MPI_Type_free(&cell);
	free(offsets);
	free(bytes);
}

/* ---- hints and the run ---- */

static MPI_Info make_hints(void)
{
	static const char *const orders[] = {"rank", "pairwise", "nd_shift", "nd_rank_shift"};
	static const char *const switches[] = {"enable", "enable", "automatic", "disable"};
	MPI_Info info;
	char text[32];

	MPI_Info_create(&info);
	MPI_Info_set(info, "kairan_order", orders[draw(4)]);
	MPI_Info_set(info, "romio_cb_write", switches[draw(4)]);
	MPI_Info_set(info, "romio_cb_read", switches[draw(4)]);
	snprintf(text, sizeof(text), "%u", draw(5));
	MPI_Info_set(info, "kairan_window", text);
	snprintf(text, sizeof(text), "%u", 1 + draw(4));
	MPI_Info_set(info, "kairan_slots", text);
	snprintf(text, sizeof(text), "%u", 4096u << draw(5));
	MPI_Info_set(info, "striping_unit", text);
	snprintf(text, sizeof(text), "%u", 4096u << draw(5));
	MPI_Info_set(info, "cb_buffer_size", text);
	snprintf(text, sizeof(text), "%u", 1 + draw((unsigned)ranks));
	if (draw(2))
		MPI_Info_set(info, "cb_nodes", text);
	MPI_Info_set(info, "cb_config_list", draw(2) ? "*:*" : "*:1");
	return info;
}

static void pretend_node(void)
{
	char name[16];
	unsigned nodes = 1 + draw(3), round_robin = draw(2);

	if (getenv("LAYER_NODES"))
		return;
	snprintf(name, sizeof(name), "node%u",
		round_robin ? (unsigned)rank % nodes : (unsigned)rank * nodes / (unsigned)ranks);
	setenv("KAIRAN_MPIIO_NODE", name, 1);
}

static void make_file(const char *path)
{
	model_size = draw(2) ? 20000 + draw(100000) : 0;
	memset(model, 0, FILE_MAX);
	memset(model, BEFORE, model_size);
	if (rank == 0) {
		FILE *out = fopen(path, "wb");

		if (!out || fwrite(model, 1, model_size, out) != model_size || fclose(out) != 0)
			fail("cannot make the file");
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Bytes that one rank wrote are read by another after this. */
static void meet(MPI_File fh)
{
	doing = "sync";
	CHECK(MPI_File_sync(fh));
	MPI_Barrier(MPI_COMM_WORLD);
	CHECK(MPI_File_sync(fh));
}

static void run_file(const char *path, unsigned round, unsigned steps)
{
	MPI_Info info;
	MPI_File fh;
	MPI_Offset size;

	pretend_node();
	make_file(path);
	info = make_hints();
	doing = "open";
	CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh));
	check_library(fh);
	for (unsigned i = 0; i < steps; i++) {
		unsigned what = draw(10);

		if (what == 0 && overlap_is_ordered(fh))
			overlap_step(fh, round * 100 + i);
		else if (what == 1)
			two_at_once(fh, round * 100 + i);
		else
			write_step(fh, round * 100 + i);
		meet(fh);
		if (draw(3) == 0)
			check_file(path);
		read_step(fh);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	CHECK(MPI_File_get_size(fh, &size));
	if ((uint64_t)size != model_size)
		fail("the size is %ld instead of %ld", (long)size, (long)model_size);
	doing = "close";
	CHECK(MPI_File_close(&fh));
	MPI_Info_free(&info);
	check_file(path);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	unsigned seed, steps;
	int level;

	MPI_Init_thread(&argc, &argv, getenv("LAYER_THREADS") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc < 2)
		fail("usage: layer FILE [SEED [STEPS]]");
	seed = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)getpid();
	steps = argc > 3 ? (unsigned)atoi(argv[3]) : 60;
	MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("LAYER_SEED=%u\n", seed);
	draw_state = seed;
	model = malloc(FILE_MAX);
	for (unsigned done = 0; done < steps; done += 6)
		run_file(argv[1], done, 6);
	if (rank == 0)
		printf("layer: right\n");
	free(model);
	MPI_Finalize();
	return 0;
}
