/* What layer.c draws (types, memory, places in the file), and the model of the file that it must come to. */
#include "test/mpi/layer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rank, ranks;
unsigned char *model;
uint64_t model_size;
uint64_t draw_state;
const char *doing = "";

void fail_at(int line, const char *format, ...)
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

void check(int rc, const char *what)
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
unsigned draw(unsigned below)
{
	draw_state = draw_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(draw_state >> 33) % below;
}

/* ---- types ---- */

/* Offsets of the bytes of COUNT copies of TYPE, in data order: packs an array of bytes that hold their own number, a
 * byte of it at a time.  ORIGIN is where offset 0 lies in an array of SPAN bytes. */
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
		int sizes[2] = {3 + (int)draw(9), ranks * block}, subsizes[2] = {sizes[0], block},
		    starts[2] = {0, rank * block};

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

		MPI_Type_create_darray(
			ranks, rank, 1, &size, &distribution, &argument, &ranks, MPI_ORDER_C, MPI_BYTE, &type);
		break;
	}
	default: /* everything, elsewhere for each */
		MPI_Type_contiguous(1, MPI_BYTE, &type);
		*ret_displacement += rank * (long)(FILE_MAX / 8 / ranks);
	}
	MPI_Type_commit(&type);
	return type;
}

void make_memory(struct memory *memory, int bytes)
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

void free_memory(struct memory *memory)
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

unsigned char value(unsigned step, int who, int i)
{
	return (unsigned char)(step * 37 + (unsigned)who * 11 + (unsigned)i * 7 + ((unsigned)i >> 8));
}

void model_write(unsigned step, const int64_t *offsets, int bytes)
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

void check_file(const char *path)
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

/* ---- places in the file ---- */

void make_place(struct place *place)
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

void free_place(struct place *place)
{
	MPI_Type_free(&place->filetype);
	free(place->offsets);
}
