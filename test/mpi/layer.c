/* libkairan-mpiio against a model of every byte: random views, memory types, calls, hints and pretended nodes; data, gaps, counts
 * and the file pointer.
 *
 *     mpirun -n 4 layer FILE [SEED [STEPS]]      the library preloaded, KAIRAN_MPIIO=force
 *
 * Without the library it tests MPI's own I/O, unless LAYER_REQUIRED is set; LAYER_THREADS asks for MPI_THREAD_MULTIPLE;
 * with LAYER_NODES nodes are not pretended.  Every rank knows from MPI_Pack of numbered bytes where a type's bytes lie, so the
 * library's own reading of types plays no part in what is expected.  Prints the seed; exit status 0 and "layer: right" if all is.
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20, DATA_MAX = 1 << 16, BEFORE = 0x5a, UNTOUCHED = 0xa5 };

static int rank, ranks;
static unsigned char *model; /* of the file, the same on all ranks */
static uint64_t model_size;
static uint64_t state;
static const char *doing = "";

#define fail(...) fail_at(__LINE__, __VA_ARGS__)
static void __attribute__((format(printf, 2, 3))) fail_at(int line, const char *format, ...)
{
	va_list arguments;

	printf("rank %d, line %d: %s: ", rank, line, doing);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int rc, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int length;

	if (rc == MPI_SUCCESS)
		return;
	MPI_Error_string(rc, text, &length);
	printf("rank %d: %s: %s: %s\n", rank, doing, what, text);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(call) check(call, #call)

/* The same numbers on all ranks, as long as all ask for as many. */
static unsigned draw(unsigned below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(state >> 33) % below;
}

/* ---- types ---- */

/* Offsets of the bytes of COUNT copies of TYPE, in data order: packs an array of bytes that hold their own number, a byte of it at
 * a time.  ORIGIN is where offset 0 lies in an array of SPAN bytes. */
static void flatten(MPI_Datatype type, int count, size_t origin, size_t span, int64_t *ret_offsets, int bytes)
{
	unsigned char *array = malloc(span), *packed = malloc((size_t)bytes + 1);

	memset(ret_offsets, 0, (size_t)bytes * sizeof(*ret_offsets));
	for (int plane = 0; plane < 3; plane++) {
		int position = 0;

		for (size_t i = 0; i < span; i++)
			array[i] = (unsigned char)(i >> (8 * plane));
		MPI_Pack(array + origin, count, type, packed, bytes, &position, MPI_COMM_SELF);
		if (position != bytes)
			fail("packed %d bytes instead of %d", position, bytes);
		for (int i = 0; i < bytes; i++)
			ret_offsets[i] |= (int64_t)packed[i] << (8 * plane);
	}
	for (int i = 0; i < bytes; i++)
		ret_offsets[i] -= (int64_t)origin;
	free(array);
	free(packed);
}

/* A filetype that is right by itself, but would overlap as tiles: for small accesses. */
static MPI_Datatype make_odd_filetype(void)
{
	int lengths[6];
	MPI_Aint places[6], at = 0;
	MPI_Datatype inner, type;

	for (int i = 0; i < 6; i++) {
		lengths[i] = 50 + (int)draw(400);
		places[i] = at + rank * lengths[i];
		at += ranks * lengths[i] + (int)draw(40);
	}
	MPI_Type_create_hindexed(6, lengths, places, MPI_BYTE, &inner);
	MPI_Type_create_resized(inner, 0, 1 + draw(300), &type);
	MPI_Type_free(&inner);
	MPI_Type_commit(&type);
	return type;
}

/* A view in which the ranks do not overlap; its filetype is committed. */
static MPI_Datatype make_filetype(MPI_Offset *ret_displacement)
{
	int block = 1 + (int)draw(draw(2) ? 40 : 700), gap = (int)draw(30), cell = block * ranks + gap;
	unsigned kind = draw(5);
	MPI_Datatype type, inner;

	*ret_displacement = draw(3) ? draw(5000) : 0;
	switch (kind) {
	case 0: /* one block of each cell */
		MPI_Type_contiguous(block, MPI_BYTE, &inner);
		MPI_Type_create_resized(inner, 0, cell, &type);
		MPI_Type_free(&inner);
		*ret_displacement += rank * block;
		break;
	case 1: /* the same as a part of an array */ {
		int sizes[2] = {3 + (int)draw(9), ranks * block}, subsizes[2] = {sizes[0], block}, starts[2] = {0, rank * block};

		MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_BYTE, &type);
		break;
	}
	case 2: /* irregular */ {
		int lengths[5];
		MPI_Aint places[5], at = 0;

		for (int i = 0; i < 5; i++) {
			int length = 1 + (int)draw(100);

			lengths[i] = length;
			places[i] = at + rank * length;
			at += ranks * length + (int)draw(40);
		}
		MPI_Type_create_hindexed(5, lengths, places, MPI_BYTE, &inner);
		MPI_Type_create_resized(inner, 0, at, &type);
		MPI_Type_free(&inner);
		break;
	}
	case 3: /* cyclic */ {
		int argument = 1 + (int)draw(4), size = ranks * argument * (1 + (int)draw(6)) + (int)draw(3);
		int distribution = MPI_DISTRIBUTE_CYCLIC;

		MPI_Type_create_darray(ranks, rank, 1, &size, &distribution, &argument, &ranks, MPI_ORDER_C, MPI_BYTE, &type);
		break;
	}
	default: /* everything, elsewhere for each */
		MPI_Type_contiguous(1, MPI_BYTE, &type);
		*ret_displacement += rank * (long)(FILE_MAX / 8 / ranks);
	}
	MPI_Type_commit(&type);
	return type;
}

/* Memory for a call: BYTES bytes, as COUNT of TYPE. */
struct memory {
	MPI_Datatype type;
	int count, bytes;
	size_t origin, span;
	unsigned char *array;
	int64_t *offsets;
};

static void make_memory(struct memory *memory, int bytes)
{
	unsigned kind = draw(4);
	int unit = 1 + (int)draw(9);
	MPI_Datatype inner;

	memory->origin = 64;
	memory->bytes = bytes;
	if (kind == 0 || bytes % unit != 0)
		unit = 1;
	memory->count = bytes / unit;
	switch (kind) {
	case 0:
		MPI_Type_contiguous(1, MPI_BYTE, &memory->type);
		break;
	case 1: /* with holes */
		MPI_Type_contiguous(unit, MPI_BYTE, &inner);
		MPI_Type_create_resized(inner, 0, unit + 3, &memory->type);
		MPI_Type_free(&inner);
		break;
	case 2: /* backwards, and below the address */
		MPI_Type_create_hvector(unit, 1, -5, MPI_BYTE, &inner);
		MPI_Type_create_resized(inner, 0, unit * 5 + 1, &memory->type);
		MPI_Type_free(&inner);
		break;
	default: /* bytes far apart within a unit */
		MPI_Type_vector(unit, 1, 4, MPI_BYTE, &memory->type);
	}
	MPI_Type_commit(&memory->type);
	memory->span = 2 * 64 + (size_t)memory->count * ((size_t)unit * 5 + 4) + 64;
	memory->array = malloc(memory->span);
	memory->offsets = malloc(((size_t)bytes + 1) * sizeof(*memory->offsets));
	flatten(memory->type, memory->count, memory->origin, memory->span, memory->offsets, bytes);
}

static void free_memory(struct memory *memory)
{
	MPI_Type_free(&memory->type);
	free(memory->array);
	free(memory->offsets);
}

/* ---- the model ---- */

/* The offsets in the file of BYTES bytes of the view from data byte START. */
static int64_t *file_offsets(MPI_Offset displacement, MPI_Datatype filetype, int start, int bytes)
{
	int size, tiles;
	MPI_Aint lb, extent, true_lb, true_extent;
	int64_t *all, *offsets = malloc(((size_t)bytes + 1) * sizeof(*offsets));

	MPI_Type_size(filetype, &size);
	MPI_Type_get_extent(filetype, &lb, &extent);
	MPI_Type_get_true_extent(filetype, &true_lb, &true_extent);
	tiles = (start + bytes) / size + 1;
	all = malloc((size_t)tiles * (size_t)size * sizeof(*all));
	flatten(filetype, tiles, 0, (size_t)(extent * (tiles - 1) + true_lb + true_extent), all, tiles * size);
	for (int i = 0; i < bytes; i++)
		offsets[i] = all[start + i] + displacement;
	free(all);
	return offsets;
}

static unsigned char value(unsigned step, int who, int i)
{
	return (unsigned char)(step * 37 + (unsigned)who * 11 + (unsigned)i * 7 + ((unsigned)i >> 8));
}

/* Every rank's writes, in the order of the ranks, into everybody's model. */
static void model_write(unsigned step, const int64_t *offsets, int bytes)
{
	for (int who = 0; who < ranks; who++) {
		int n = bytes;
		int64_t *theirs;

		MPI_Bcast(&n, 1, MPI_INT, who, MPI_COMM_WORLD);
		theirs = malloc(((size_t)n + 1) * sizeof(*theirs));
		if (who == rank)
			memcpy(theirs, offsets, (size_t)n * sizeof(*theirs));
		MPI_Bcast(theirs, n, MPI_INT64_T, who, MPI_COMM_WORLD);
		for (int i = 0; i < n; i++) {
			if (theirs[i] < 0 || theirs[i] >= FILE_MAX)
				fail("offset %ld", (long)theirs[i]);
			model[theirs[i]] = value(step, who, i);
			if ((uint64_t)theirs[i] >= model_size)
				model_size = (uint64_t)theirs[i] + 1;
		}
		free(theirs);
	}
}

/* The whole file, by POSIX, on rank 0. */
static void check_file(const char *path)
{
	FILE *in;
	unsigned char *bytes;
	size_t n;

	if (rank != 0)
		return;
	in = fopen(path, "rb");
	bytes = malloc(FILE_MAX + 1);
	n = fread(bytes, 1, FILE_MAX + 1, in);
	if (n != model_size)
		fail("the file has %ld bytes instead of %ld", (long)n, (long)model_size);
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != model[i])
			fail("byte %ld of the file is %d instead of %d", (long)i, bytes[i], model[i]);
	fclose(in);
	free(bytes);
}

/* ---- calls ---- */

enum way { ALL, AT_ALL, SPLIT, AT_SPLIT, I_ALL, I_AT_ALL, ALONE, AT_ALONE, I_ALONE, WAYS };
static const char *const way_names[] = {"_all", "_at_all", "_all_begin", "_at_all_begin", "i_all", "i_at_all", "", "_at", "i"};

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
	case ALL: CHECK(MPI_File_write_all(fh, buffer, m->count, m->type, status)); break;
	case AT_ALL: CHECK(MPI_File_write_at_all(fh, at, buffer, m->count, m->type, status)); break;
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
	case ALONE: CHECK(MPI_File_write(fh, buffer, m->count, m->type, status)); break;
	case AT_ALONE: CHECK(MPI_File_write_at(fh, at, buffer, m->count, m->type, status)); break;
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
	case ALL: CHECK(MPI_File_read_all(fh, buffer, m->count, m->type, status)); break;
	case AT_ALL: CHECK(MPI_File_read_at_all(fh, at, buffer, m->count, m->type, status)); break;
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
	case ALONE: CHECK(MPI_File_read(fh, buffer, m->count, m->type, status)); break;
	case AT_ALONE: CHECK(MPI_File_read_at(fh, at, buffer, m->count, m->type, status)); break;
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

struct place {
	MPI_Offset displacement;
	MPI_Datatype filetype;
	int start, bytes;
	int64_t *offsets;
};

static void make_place(struct place *place)
{
	int room = 1 + (int)draw(draw(3) ? 3000 : FILE_MAX / 16 / ranks);
	bool odd = draw(6) == 0;

	place->displacement = 0;
	place->filetype = odd ? make_odd_filetype() : make_filetype(&place->displacement);
	place->start = draw(2) ? (int)draw(odd ? 100 : 2000) : 0;
	if (odd)
		room = 190;
	/* Ranks do different amounts, some nothing. */
	place->bytes = 0;
	for (int who = 0; who < ranks; who++) {
		int bytes = draw(6) == 0 ? 0 : (int)draw((unsigned)room) + 1;

		if (who == rank)
			place->bytes = bytes;
	}
	place->offsets = file_offsets(place->displacement, place->filetype, place->start, place->bytes);
}

static void free_place(struct place *place)
{
	MPI_Type_free(&place->filetype);
	free(place->offsets);
}

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
	snprintf(name, sizeof(name), "node%u", round_robin ? (unsigned)rank % nodes : (unsigned)rank * nodes / (unsigned)ranks);
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
	state = seed;
	model = malloc(FILE_MAX);
	for (unsigned done = 0; done < steps; done += 6)
		run_file(argv[1], done, 6);
	if (rank == 0)
		printf("layer: right\n");
	free(model);
	MPI_Finalize();
	return 0;
}
