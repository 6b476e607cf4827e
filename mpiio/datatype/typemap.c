/* Typemaps: constructors over layout nodes, and properties; see typemap.h. */
#include "mpiio/datatype/typemap.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "mpiio/datatype/typemap_priv.h"

int kr_typemap_make(
	int64_t displacement, int64_t lb, int64_t extent, struct kr_typenode *layout, struct kr_typemap **ret_map)
{
	int64_t lo, hi;
	bool fits = kr_typemap_fits(displacement) && kr_typemap_fits(lb) && kr_typemap_fits(extent) &&
		kr_typemap_add(displacement, layout->lo, &lo) && kr_typemap_add(displacement, layout->hi, &hi);
	struct kr_typemap *map = fits ? malloc(sizeof(*map)) : NULL;
	if (!map) {
		kr_typenode_put(layout);
		return fits ? -ENOMEM : -EOVERFLOW;
	}
	if (layout->size == 0)
		displacement = 0;
	*map = (struct kr_typemap){
		.refs = 1, .displacement = displacement, .lb = lb, .extent = extent, .layout = layout};
	*ret_map = map;
	return 0;
}

struct kr_typemap *kr_typemap_get(struct kr_typemap *map)
{
	__atomic_fetch_add(&map->refs, 1, __ATOMIC_RELAXED);
	return map;
}

void kr_typemap_put(struct kr_typemap *map)
{
	if (!map || __atomic_sub_fetch(&map->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	kr_typenode_put(map->layout);
	free(map);
}

int kr_typemap_bytes(uint64_t length, struct kr_typemap **ret_map)
{
	struct kr_typenode *layout;
	int error = kr_typenode_bytes(length, &layout);
	return error < 0 ? error : kr_typemap_make(0, 0, (int64_t)length, layout, ret_map);
}

/* lb and ub of COUNT > 0 copies of MAP. */
static int copies_bounds(uint64_t count, const struct kr_typemap *map, int64_t *ret_lb, int64_t *ret_ub)
{
	int64_t last, ub;
	if (!kr_typemap_mul(count - 1, map->extent, &last) || !kr_typemap_add(map->lb, map->extent, &ub) ||
		!kr_typemap_add(map->lb, KR_MIN(last, 0), ret_lb) || !kr_typemap_add(ub, KR_MAX(last, 0), ret_ub))
		return -EOVERFLOW;
	return 0;
}

int kr_typemap_contiguous(uint64_t count, struct kr_typemap *map, struct kr_typemap **ret_map)
{
	struct kr_part part = {.count = count, .map = map};
	return kr_typemap_struct(1, &part, ret_map);
}

int kr_typemap_vector(
	uint64_t count, uint64_t block, int64_t stride, struct kr_typemap *map, struct kr_typemap **ret_map)
{
	struct kr_typenode *one = NULL, *all = NULL;
	int64_t lb = 0, ub = 0, last, extent = 0;
	int error = 0;
	if (count > 0 && block > 0) {
		error = copies_bounds(block, map, &lb, &ub);
		if (error == 0 &&
			(!kr_typemap_mul(count - 1, stride, &last) || !kr_typemap_add(lb, KR_MIN(last, 0), &lb) ||
				!kr_typemap_add(ub, KR_MAX(last, 0), &ub)))
			error = -EOVERFLOW;
	}
	if (error == 0 && !kr_typemap_add(ub, -lb, &extent))
		error = -EOVERFLOW;
	if (error == 0)
		error = kr_typenode_repeat(block, map->extent, map->layout, &one);
	if (error == 0)
		error = kr_typenode_repeat(count, stride, one, &all);
	kr_typenode_put(one);
	return error < 0 ? error : kr_typemap_make(map->displacement, lb, extent, all, ret_map);
}

/* The smallest lower and the largest upper bound of the parts; parts of no copies have none. */
static int struct_bounds(size_t count, const struct kr_part *parts, int64_t *ret_lb, int64_t *ret_extent)
{
	int64_t lb = 0, ub = 0, part_lb, part_ub;
	bool any = false;
	for (size_t i = 0; i < count; i++) {
		if (parts[i].count == 0)
			continue;
		if (copies_bounds(parts[i].count, parts[i].map, &part_lb, &part_ub) < 0 ||
			!kr_typemap_add(part_lb, parts[i].displacement, &part_lb) ||
			!kr_typemap_add(part_ub, parts[i].displacement, &part_ub))
			return -EOVERFLOW;
		lb = any ? KR_MIN(lb, part_lb) : part_lb;
		ub = any ? KR_MAX(ub, part_ub) : part_ub;
		any = true;
	}
	*ret_lb = lb;
	return kr_typemap_add(ub, -lb, ret_extent) ? 0 : -EOVERFLOW;
}

/* The parts as placed nodes; the first *RET_DONE hold a reference, also after an error. */
static int place_parts(size_t count, const struct kr_part *parts, struct kr_placed *placed, size_t *ret_done)
{
	*ret_done = 0;
	for (size_t i = 0; i < count; i++) {
		const struct kr_typemap *map = parts[i].map;
		int64_t displacement;
		int error = 0;
		if (!kr_typemap_add(parts[i].displacement, map->displacement, &displacement))
			return -EOVERFLOW;
		if (i > 0 && parts[i - 1].map == map && parts[i - 1].count == parts[i].count)
			placed[i].node = kr_typenode_get(placed[i - 1].node);
		else
			error = kr_typenode_repeat(parts[i].count, map->extent, map->layout, &placed[i].node);
		if (error < 0)
			return error;
		placed[i].displacement = displacement;
		*ret_done = i + 1;
	}
	return 0;
}

int kr_typemap_struct(size_t count, const struct kr_part *parts, struct kr_typemap **ret_map)
{
	struct kr_placed *placed = reallocarray(NULL, count + 1, sizeof(*placed));
	struct kr_typenode *layout = NULL;
	int64_t lb, extent, displacement;
	size_t done = 0;
	if (!placed)
		return -ENOMEM;
	int error = struct_bounds(count, parts, &lb, &extent);
	if (error == 0)
		error = place_parts(count, parts, placed, &done);
	if (error == 0)
		error = kr_typenode_list(placed, count, &displacement, &layout);
	for (size_t i = 0; i < done; i++)
		kr_typenode_put(placed[i].node);
	free(placed);
	return error < 0 ? error : kr_typemap_make(displacement, lb, extent, layout, ret_map);
}

int kr_typemap_resized(struct kr_typemap *map, int64_t lb, int64_t extent, struct kr_typemap **ret_map)
{
	return kr_typemap_make(map->displacement, lb, extent, kr_typenode_get(map->layout), ret_map);
}

int kr_typemap_tile(struct kr_typemap *map, struct kr_typemap **ret_map)
{
	struct kr_typenode *layout = map->layout;
	int64_t extent = map->extent, length;
	if (layout->kind == KR_NODE_BYTES && extent == (int64_t)layout->size && extent > 1) {
		int error = kr_typenode_bytes(1, &layout);
		return error < 0 ? error : kr_typemap_make(map->displacement, 0, 1, layout, ret_map);
	}
	while (layout->kind == KR_NODE_REPEAT && kr_typemap_mul(layout->count, layout->stride, &length) &&
		length == extent) {
		extent = layout->stride;
		layout = layout->child;
	}
	return kr_typemap_make(map->displacement, 0, extent, kr_typenode_get(layout), ret_map);
}

uint64_t kr_typemap_size(const struct kr_typemap *map)
{
	return map->layout->size;
}

int64_t kr_typemap_true_lb(const struct kr_typemap *map)
{
	return map->displacement + map->layout->lo;
}

int64_t kr_typemap_true_ub(const struct kr_typemap *map)
{
	return map->displacement + map->layout->hi;
}

uint64_t kr_typemap_runs(const struct kr_typemap *map)
{
	return map->layout->runs;
}

bool kr_typemap_contiguous_tiles(const struct kr_typemap *map)
{
	return map->layout->kind == KR_NODE_BYTES && map->layout->size > 0 && map->extent == (int64_t)map->layout->size;
}

bool kr_typemap_monotonic(const struct kr_typemap *map)
{
	return map->layout->monotonic;
}

bool kr_typemap_monotonic_tiles(const struct kr_typemap *map)
{
	return map->layout->monotonic && map->extent >= map->layout->hi;
}
