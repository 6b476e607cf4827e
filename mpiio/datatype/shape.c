/* See shape.h. */
#include "mpiio/datatype/shape.h"

#include <errno.h>

#include "common/base/fail.h"

void kr_shape_init(struct kr_shape *shape, int64_t displacement, uint64_t etype_size, struct kr_typemap *map)
{
	*shape = (struct kr_shape){.displacement = displacement, .etype_size = etype_size > 0 ? etype_size : 1};
	if (!map || kr_typemap_size(map) == 0 || kr_typemap_size(map) % shape->etype_size != 0)
		return;
	shape->map = kr_typemap_get(map);
	if (kr_view_init(&shape->view, displacement, shape->etype_size, map) == 0)
		shape->kind = KR_SHAPE_TILES;
	else if (kr_typemap_monotonic(map) &&
		kr_typemap_resized(map, kr_typemap_true_lb(map), kr_typemap_true_ub(map) - kr_typemap_true_lb(map),
			&shape->alone) == 0)
		shape->kind = KR_SHAPE_ONE_TILE;
	else
		shape->kind = KR_SHAPE_UNORDERED;
}

void kr_shape_init_bytes(struct kr_shape *shape)
{
	struct kr_typemap *byte = NULL;

	kr_typemap_bytes(1, &byte);
	kr_shape_init(shape, 0, 1, byte);
	kr_typemap_put(byte);
}

void kr_shape_fini(struct kr_shape *shape)
{
	kr_view_fini(&shape->view);
	kr_typemap_put(shape->map);
	kr_typemap_put(shape->alone);
	*shape = (struct kr_shape){.etype_size = 1};
}

/* The map as it is: good for a cursor. */
static int plain_view(const struct kr_shape *shape, struct kr_typemap *map, struct kr_view *ret_view)
{
	*ret_view = (struct kr_view){
		.displacement = shape->displacement, .etype_size = shape->etype_size, .filetype = kr_typemap_get(map)};
	return 0;
}

/* The view of the tile in which START lies. */
static int view_of_tile(const struct kr_shape *shape, uint64_t tile, struct kr_view *ret_view)
{
	int64_t displacement;

	if (tile > INT64_MAX || __builtin_mul_overflow((int64_t)tile, shape->map->extent, &displacement) ||
		__builtin_add_overflow(displacement, shape->displacement, &displacement))
		return kr_fail(-EOVERFLOW, "a tile that far lies outside of every file");
	return kr_view_init(ret_view, displacement, shape->etype_size, shape->alone);
}

int kr_shape_view(const struct kr_shape *shape, uint64_t start, uint64_t count, struct kr_view *ret_view,
	uint64_t *ret_start, bool *ret_ordered)
{
	uint64_t size, tile;

	*ret_ordered = shape->kind == KR_SHAPE_TILES;
	*ret_start = start;
	if (shape->kind == KR_SHAPE_UNKNOWN)
		return kr_fail(-ENOENT, "the filetype could not be read");
	if (shape->kind == KR_SHAPE_TILES)
		return plain_view(shape, shape->view.filetype, ret_view);
	size = kr_typemap_size(shape->map);
	tile = start / size;
	if (shape->kind == KR_SHAPE_UNORDERED || (count > 0 && (start + count - 1) / size != tile))
		return plain_view(shape, shape->map, ret_view);
	*ret_ordered = true;
	*ret_start = start - tile * size;
	return view_of_tile(shape, tile, ret_view);
}
