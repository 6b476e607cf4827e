/* Fuzz target: any bytes as a serialised typemap or view, and as choices for one that is formed as it should be.  What
 * is accepted must survive a walk, seeks and being written again; cursors must agree with each other.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "mpiio/datatype/extents.h"
#include "mpiio/datatype/leb128.h"
#include "mpiio/datatype/view.h"
#include "test/fuzz/fuzz.h"
#include "test/unit/mpiio/datatype/mpi_same_map.h"
#include "test/unit/mpiio/datatype/cursor_bytes.h"

enum { WALK_MAX = 500 };

/* Walks up to WALK_MAX runs from data byte START; each byte's offset must be what a fresh seek finds. */
static void walk(const struct kr_typemap *map, int64_t displacement, uint64_t start, uint64_t count)
{
	struct kr_cursor cursor;
	struct kr_run run;
	uint64_t at = start;
	int64_t offset;
	if (kr_cursor_init(&cursor, map, displacement, start, count) < 0)
		return;
	for (int i = 0; i < WALK_MAX && kr_cursor_take(&cursor, 4096, &run); i++) {
		assert(run.length > 0 && run.length <= 4096);
		assert(kr_typemap_offset_of(map, displacement, at, &offset) == 0 && offset == run.offset);
		at += run.length;
		assert(cursor.position == at);
		assert(kr_typemap_offset_of(map, displacement, at - 1, &offset) == 0 &&
			offset == run.offset + (int64_t)run.length - 1);
	}
}

static void use_map(const struct kr_typemap *map)
{
	uint64_t size = kr_typemap_size(map);
	struct kr_typemap *again;
	uint8_t *bytes;
	size_t length;
	if (kr_typemap_true_lb(map) > kr_typemap_true_ub(map))
		abort();
	if (size > 0) {
		walk(map, 0, 0, size);
		walk(map, 12345, size / 2, 3 * size);
	}
	assert(kr_typemap_to_bytes(map, &bytes, &length) == 0);
	assert(kr_typemap_from_bytes(bytes, length, &again) == 0);
	assert(same_map(map, again));
	kr_typemap_put(again);
	free(bytes);
}

/* Two ranks with this view, the second further on, in a window of the file. */
static void use_view(const struct kr_view *view)
{
	struct kr_cursor first, second, *both[2] = {&first, &second};
	struct kr_extents extents;
	uint64_t size = kr_typemap_size(view->filetype);
	int64_t lo, hi;
	if (size > UINT64_MAX / 8 || kr_view_cursor(view, 0, 2 * size, &first) < 0 ||
		kr_view_cursor(view, size, 3 * size, &second) < 0 || kr_view_range(view, 0, 2 * size, &lo, &hi) < 0)
		return;
	assert(kr_view_bytes_below(view, lo) == 0 && kr_view_bytes_below(view, lo + 1) == 1);
	assert(kr_view_bytes_below(view, hi) == 2 * size);
	if (kr_typemap_runs(view->filetype) > WALK_MAX)
		return;
	kr_extents_init(&extents);
	kr_cursor_seek_data(&second, second.start + cursor_bytes_before(&second, lo + (hi - lo) / 3));
	assert(kr_extents_union(&extents, both, 2, hi) == 0);
	assert(extents.bytes >= 2 * size);
	kr_extents_fini(&extents);
}

static void try_bytes(const uint8_t *bytes, size_t length)
{
	struct kr_typemap *map;
	struct kr_view view;
	if (kr_typemap_from_bytes(bytes, length, &map) < 0)
		return;
	use_map(map);
	if (kr_view_init(&view, 0, 1, map) == 0) {
		use_map(view.filetype);
		use_view(&view);
	}
	kr_view_fini(&view);
	kr_typemap_put(map);
}

/* The next choice; 0 when the input is used up. */
static uint64_t choose(const uint8_t **at, const uint8_t *end, uint64_t limit)
{
	return *at < end ? *(*at)++ % limit : 0;
}

/* Mostly small, sometimes of any size. */
static int64_t choose_distance(const uint8_t **at, const uint8_t *end)
{
	int64_t small = (int64_t)choose(at, end, 64) - 8;
	return choose(at, end, 16) ? small : small * (INT64_C(1) << choose(at, end, 58));
}

/* Layouts of whose fields each is valid by itself. */
static void forge(const uint8_t *at, const uint8_t *end)
{
	struct kr_leb_writer w = {0};
	uint64_t layouts = 1 + choose(&at, end, 24);
	kr_leb_put(&w, 1);
	kr_leb_put_signed(&w, choose_distance(&at, end));
	kr_leb_put_signed(&w, choose_distance(&at, end));
	kr_leb_put_signed(&w, choose_distance(&at, end));
	kr_leb_put(&w, layouts);
	for (uint64_t i = 0; i < layouts; i++) {
		uint64_t kind = i == 0 ? 0 : choose(&at, end, 3), count = 2 + choose(&at, end, 6);
		kr_leb_put(&w, kind);
		kr_leb_put(&w, count);
		if (kind == 1)
			kr_leb_put_signed(&w, choose_distance(&at, end));
		for (uint64_t part = 0; kind > 0 && part < (kind == 1 ? 1 : count); part++) {
			if (kind == 2)
				kr_leb_put_signed(&w, part == 0 ? 0 : choose_distance(&at, end));
			kr_leb_put(&w, 1 + choose(&at, end, i));
		}
	}
	if (w.error == 0)
		try_bytes(w.bytes, w.length);
	free(w.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	try_bytes(bytes, length);
	if (length > 0)
		forge(bytes, bytes + length);
	return 0;
}
