/* Cursors over tiled typemaps; see cursor.h.
 *
 * State at rest, while position < end: data byte POSITION lies at leaf_offset, and leaf_left > 0 bytes of the run of
 * its innermost bytes node are left.  levels[0 ... depth) are the repeats and lists above that node.  Where the
 * innermost is a repeat (or where the endless row of tiles is one), leaf_more of its runs follow at leaf_stride without
 * a look at the levels: the index kept there is then not up to date.  Init has checked that no offset of the walk
 * overflows.
 */
#include "mpiio/datatype/cursor.h"

#include <assert.h>
#include <errno.h>

#include "common/base/util.h"
#include "mpiio/datatype/typemap_priv.h"

/* The part of LIST that contains data byte DATA. */
static uint64_t find_data(const struct kr_typenode *list, uint64_t data)
{
	uint64_t low = 0, high = list->count;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		if (list->parts[middle].data <= data)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Descends from NODE, whose first data byte lies at BASE, to the run that contains its data byte DATA. */
static void descend(struct kr_cursor *cursor, const struct kr_typenode *node, int64_t base, uint64_t data)
{
	while (node->kind != KR_NODE_BYTES) {
		struct kr_cursor_level *level = &cursor->levels[cursor->depth++];
		level->layout = node;
		level->base = base;
		if (node->kind == KR_NODE_REPEAT) {
			level->index = data ? data / node->child->size : 0;
			data -= level->index * node->child->size;
			base += (int64_t)level->index * node->stride;
			node = node->child;
		} else {
			const struct kr_typepart *part = &node->parts[level->index = data ? find_data(node, data) : 0];
			data -= part->data;
			base += part->displacement;
			node = part->child;
		}
	}
	cursor->leaf_offset = base + (int64_t)data;
	cursor->leaf_length = node->size;
	cursor->leaf_left = node->size - data;
}

/* After descend: counts the runs that follow on the same level. */
static void find_more(struct kr_cursor *cursor)
{
	const struct kr_typemap *map = cursor->map;
	cursor->leaf_more = 0;
	if (cursor->depth == 0) {
		cursor->leaf_stride = map->extent;
		cursor->leaf_more = UINT64_MAX;
		if (kr_typemap_contiguous_tiles(map))
			cursor->leaf_left = cursor->end - cursor->position;
		return;
	}
	const struct kr_cursor_level *level = &cursor->levels[cursor->depth - 1];
	if (level->layout->kind == KR_NODE_REPEAT) {
		int64_t all;
		cursor->leaf_stride = level->layout->stride;
		cursor->leaf_more = level->layout->count - 1 - level->index;
		if (cursor->depth == 1 && kr_typemap_mul(level->layout->count, cursor->leaf_stride, &all) &&
			all == map->extent)
			cursor->leaf_more = UINT64_MAX;
	}
}

static void enter_tile(struct kr_cursor *cursor, uint64_t data)
{
	const struct kr_typemap *map = cursor->map;
	cursor->depth = 0;
	descend(cursor, map->layout, cursor->displacement + map->displacement + (int64_t)cursor->tile * map->extent,
		data);
	find_more(cursor);
}

/* The run after the last of the innermost repeat. */
static void climb(struct kr_cursor *cursor)
{
	if (cursor->depth > 0 && cursor->levels[cursor->depth - 1].layout->kind == KR_NODE_REPEAT)
		cursor->depth--;
	while (cursor->depth > 0) {
		struct kr_cursor_level *level = &cursor->levels[cursor->depth - 1];
		const struct kr_typenode *node = level->layout;
		if (++level->index == node->count) {
			cursor->depth--;
			continue;
		}
		if (node->kind == KR_NODE_REPEAT)
			descend(cursor, node->child, level->base + (int64_t)level->index * node->stride, 0);
		else
			descend(cursor, node->parts[level->index].child,
				level->base + node->parts[level->index].displacement, 0);
		find_more(cursor);
		return;
	}
	cursor->tile++;
	enter_tile(cursor, 0);
}

static inline void advance(struct kr_cursor *cursor)
{
	if (cursor->leaf_more > 0) {
		cursor->leaf_more--;
		cursor->leaf_offset += cursor->leaf_stride - (int64_t)cursor->leaf_length;
		cursor->leaf_left = cursor->leaf_length;
	} else {
		climb(cursor);
	}
}

void kr_cursor_seek_data(struct kr_cursor *cursor, uint64_t data)
{
	assert(data >= cursor->start && data <= cursor->end);
	cursor->position = data;
	if (data == cursor->end)
		return;
	cursor->tile = data / cursor->map->layout->size;
	enter_tile(cursor, data % cursor->map->layout->size);
}

/* Whether all data of tile TILE lies at offsets that fit. */
static bool tile_fits(const struct kr_typemap *map, int64_t displacement, uint64_t tile)
{
	int64_t base;
	return !__builtin_mul_overflow(tile, map->extent, &base) &&
		!__builtin_add_overflow(base, displacement, &base) &&
		!__builtin_add_overflow(base, map->displacement, &base) &&
		!__builtin_add_overflow(base, map->layout->lo, &(int64_t){0}) &&
		!__builtin_add_overflow(base, map->layout->hi, &(int64_t){0});
}

int kr_cursor_init(
	struct kr_cursor *cursor, const struct kr_typemap *map, int64_t displacement, uint64_t start, uint64_t count)
{
	uint64_t size = map->layout->size, end;
	if (count > 0 && size == 0)
		return -EINVAL;
	if (__builtin_add_overflow(start, count, &end))
		return -EOVERFLOW;
	if (count > 0 &&
		(!tile_fits(map, displacement, start / size) || !tile_fits(map, displacement, (end - 1) / size)))
		return -EOVERFLOW;
	cursor->map = map;
	cursor->displacement = displacement;
	cursor->start = start;
	cursor->end = end;
	cursor->leaf_offset = 0;
	kr_cursor_seek_data(cursor, start);
	return 0;
}

/* The next run: of at most MAX bytes, below LIMIT. */
static inline bool step(struct kr_cursor *cursor, int64_t limit, uint64_t max, struct kr_run *ret_run)
{
	int64_t begin = cursor->leaf_offset;
	uint64_t length = 0;
	if (cursor->position == cursor->end || begin >= limit)
		return false;
	max = KR_MIN(max, (uint64_t)limit - (uint64_t)begin);
	max = KR_MIN(max, cursor->end - cursor->position);
	do {
		uint64_t part = KR_MIN(cursor->leaf_left, max - length);
		length += part;
		cursor->position += part;
		cursor->leaf_offset += (int64_t)part;
		cursor->leaf_left -= part;
		if (cursor->leaf_left == 0 && cursor->position < cursor->end)
			advance(cursor);
	} while (length < max && cursor->leaf_offset == begin + (int64_t)length);
	*ret_run = (struct kr_run){begin, length};
	return true;
}

bool kr_cursor_next(struct kr_cursor *cursor, int64_t limit, struct kr_run *ret_run)
{
	return step(cursor, limit, UINT64_MAX, ret_run);
}

bool kr_cursor_take(struct kr_cursor *cursor, uint64_t max, struct kr_run *ret_run)
{
	return step(cursor, INT64_MAX, max, ret_run);
}

bool kr_cursor_peek(const struct kr_cursor *cursor, int64_t *ret_offset)
{
	if (cursor->position == cursor->end)
		return false;
	*ret_offset = cursor->leaf_offset;
	return true;
}

/* How many of the data bytes of NODE, which is monotonic, lie below OFFSET (from its first). */
static uint64_t node_bytes_below(const struct kr_typenode *node, int64_t offset)
{
	uint64_t below = 0;
	while (offset > 0 && offset < node->hi && node->kind != KR_NODE_BYTES) {
		if (node->kind == KR_NODE_REPEAT) {
			uint64_t index = (uint64_t)offset / (uint64_t)node->stride;
			below += index * node->child->size;
			offset -= (int64_t)index * node->stride;
			node = node->child;
			continue;
		}
		uint64_t low = 0, high = node->count;
		while (high - low > 1) {
			uint64_t middle = low + (high - low) / 2;
			if (node->parts[middle].displacement < offset)
				low = middle;
			else
				high = middle;
		}
		below += node->parts[low].data;
		offset -= node->parts[low].displacement;
		node = node->parts[low].child;
	}
	if (offset <= 0)
		return below;
	return below + (offset >= node->hi ? node->size : (uint64_t)offset);
}

uint64_t kr_typemap_bytes_below(const struct kr_typemap *map, int64_t displacement, int64_t offset)
{
	const struct kr_typenode *layout = map->layout;
	__int128 distance = (__int128)offset - displacement - map->displacement;
	if (layout->size == 0 || distance <= 0)
		return 0;
	assert(kr_typemap_monotonic_tiles(map));
	uint64_t tile = (uint64_t)(distance / map->extent);
	return tile * layout->size + node_bytes_below(layout, (int64_t)(distance % map->extent));
}

int kr_typemap_offset_of(const struct kr_typemap *map, int64_t displacement, uint64_t data, int64_t *ret_offset)
{
	struct kr_cursor cursor;
	int error = kr_cursor_init(&cursor, map, displacement, data, 1);
	if (error == 0)
		*ret_offset = cursor.leaf_offset;
	return error;
}
