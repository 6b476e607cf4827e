/* See plain_view.h. */
#include "mpiio/datatype/plain_view.h"

#include <stdlib.h>

#include "mpiio/datatype/cursor.h"
#include "mpiio/datatype/typemap_priv.h"

/* A block's length is an int.  A longer list would cost more than the library's bugs. */
enum { BLOCK_MAX = 1 << 30, BLOCKS_MAX = 1 << 24 };

/* ---- the blocks of one copy ---- */

struct blocks {
	int *lengths;
	MPI_Aint *places;
	int count, room;
};

static bool make_room(struct blocks *blocks)
{
	int room = blocks->room ? 2 * blocks->room : 64;
	int *lengths = realloc(blocks->lengths, (size_t)room * sizeof(*lengths));
	MPI_Aint *places;

	if (lengths)
		blocks->lengths = lengths;
	places = lengths ? realloc(blocks->places, (size_t)room * sizeof(*places)) : NULL;
	if (places)
		blocks->places = places;
	if (places)
		blocks->room = room;
	return places != NULL;
}

/* Offsets count from BASE. */
static bool list_blocks(const struct kr_typemap *map, int64_t base, struct blocks *blocks)
{
	struct kr_cursor cursor;
	struct kr_run run;

	if (kr_cursor_init(&cursor, map, 0, 0, kr_typemap_size(map)) < 0)
		return false;
	while (kr_cursor_take(&cursor, BLOCK_MAX, &run)) {
		if (blocks->count == BLOCKS_MAX || (blocks->count == blocks->room && !make_room(blocks)))
			return false;
		blocks->lengths[blocks->count] = (int)run.length;
		blocks->places[blocks->count++] = (MPI_Aint)(run.offset - base);
	}
	return true;
}

static bool make_list(const struct kr_typemap *map, int64_t base, MPI_Datatype *ret_type)
{
	struct blocks blocks = {0};
	bool made = list_blocks(map, base, &blocks) &&
		PMPI_Type_create_hindexed(blocks.count, blocks.lengths, blocks.places, MPI_BYTE, ret_type) ==
			MPI_SUCCESS;

	free(blocks.lengths);
	free(blocks.places);
	return made;
}

/* ---- types ---- */

static bool is_vector(const struct kr_typenode *layout)
{
	return layout->kind == KR_NODE_REPEAT && layout->child->kind == KR_NODE_BYTES &&
		layout->child->size <= BLOCK_MAX && layout->count <= INT32_MAX && layout->stride > 0;
}

/* One copy of MAP, BASE being 0, with its extent; committed. */
static bool make_filetype(const struct kr_typemap *map, int64_t base, MPI_Datatype *ret_type)
{
	const struct kr_typenode *layout = map->layout;
	MPI_Datatype blocks;
	bool made;

	if (is_vector(layout))
		made = PMPI_Type_create_hvector((int)layout->count, (int)layout->child->size, (MPI_Aint)layout->stride,
			       MPI_BYTE, &blocks) == MPI_SUCCESS;
	else
		made = make_list(map, base, &blocks);
	if (!made)
		return false;
	made = PMPI_Type_create_resized(blocks, 0, (MPI_Aint)map->extent, ret_type) == MPI_SUCCESS;
	PMPI_Type_free(&blocks);
	return made && PMPI_Type_commit(ret_type) == MPI_SUCCESS;
}

/* SIZE bytes, one after the other. */
static bool make_etype(uint64_t size, MPI_Datatype *ret_type)
{
	return size <= BLOCK_MAX && PMPI_Type_contiguous((int)size, MPI_BYTE, ret_type) == MPI_SUCCESS &&
		PMPI_Type_commit(ret_type) == MPI_SUCCESS;
}

/* ---- the view ---- */

/* Whether TYPE is basic and has no holes (pair types have). */
static bool is_plain(MPI_Datatype type, MPI_Count size)
{
	int integers, addresses, types, combiner;
	MPI_Count lb, extent;

	return PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) == MPI_SUCCESS &&
		combiner == MPI_COMBINER_NAMED && PMPI_Type_get_extent_x(type, &lb, &extent) == MPI_SUCCESS &&
		extent == size;
}

static bool is_valid(MPI_Offset displacement, MPI_Count etype_size, const struct kr_typemap *map)
{
	int64_t begin;

	return displacement >= 0 && etype_size > 0 && map && kr_typemap_size(map) > 0 &&
		kr_typemap_size(map) % (uint64_t)etype_size == 0 && map->extent > 0 &&
		kr_typemap_add(displacement, kr_typemap_true_lb(map), &begin) && begin >= 0;
}

void kr_plain_view_init(struct kr_plain_view *view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
	const struct kr_typemap *map)
{
	struct kr_plain_view plain = {.etype = etype};
	MPI_Count size = 0;

	*view = (struct kr_plain_view){.displacement = displacement, .etype = etype, .filetype = filetype};
	if (!map || PMPI_Type_size_x(etype, &size) != MPI_SUCCESS || !is_valid(displacement, size, map))
		return;
	plain.displacement = displacement + kr_typemap_true_lb(map);
	plain.own_etype = !is_plain(etype, size);
	if (plain.own_etype && !make_etype((uint64_t)size, &plain.etype))
		return;
	plain.own_filetype = !kr_typemap_contiguous_tiles(map);
	plain.filetype = plain.etype;
	if (plain.own_filetype && !make_filetype(map, kr_typemap_true_lb(map), &plain.filetype)) {
		plain.own_filetype = false;
		kr_plain_view_fini(&plain);
		return;
	}
	*view = plain;
}

void kr_plain_view_fini(struct kr_plain_view *view)
{
	if (view->own_etype)
		PMPI_Type_free(&view->etype);
	if (view->own_filetype)
		PMPI_Type_free(&view->filetype);
	view->own_etype = view->own_filetype = false;
}
