/* Typemaps and cursors against a model that is the list of all bytes; normal form; limits; bytes for other ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>

#include "mpiio/datatype/cursor.h"
#include "test/unit/effort.h"
#include "test/unit/mpiio/datatype/mpi_random_map.h"
#include "test/unit/mpiio/datatype/mpi_same_map.h"
#include "test/unit/mpiio/datatype/cursor_bytes.h"

enum { SEEDS = KR_EFFORT(6000, 2000) };

static struct kr_typemap *bytes(uint64_t length)
{
	struct kr_typemap *map;
	assert_int_equal(kr_typemap_bytes(length, &map), 0);
	return map;
}

/* These take their map's reference. */
static struct kr_typemap *contiguous(uint64_t count, struct kr_typemap *map)
{
	struct kr_typemap *made;
	assert_int_equal(kr_typemap_contiguous(count, map, &made), 0);
	kr_typemap_put(map);
	return made;
}

static struct kr_typemap *vector(uint64_t count, uint64_t block, int64_t stride, struct kr_typemap *map)
{
	struct kr_typemap *made;
	assert_int_equal(kr_typemap_vector(count, block, stride, map, &made), 0);
	kr_typemap_put(map);
	return made;
}

static struct kr_typemap *resized(int64_t lb, int64_t extent, struct kr_typemap *map)
{
	struct kr_typemap *made;
	assert_int_equal(kr_typemap_resized(map, lb, extent, &made), 0);
	kr_typemap_put(map);
	return made;
}

/* One copy of MAP at each of the displacements. */
static struct kr_typemap *indexed(size_t count, const int64_t *displacements, uint64_t block, struct kr_typemap *map)
{
	struct kr_part *parts = calloc(count + 1, sizeof(*parts));
	struct kr_typemap *made;
	for (size_t i = 0; i < count; i++)
		parts[i] = (struct kr_part){displacements[i], block, map};
	assert_int_equal(kr_typemap_struct(count, parts, &made), 0);
	kr_typemap_put(map);
	free(parts);
	return made;
}

static void assert_same(struct kr_typemap *a, struct kr_typemap *b)
{
	assert_true(same_map(a, b));
	kr_typemap_put(a);
	kr_typemap_put(b);
}

/* Bytes of memory of a tree; the same child of neighbouring parts counts once. */
static size_t node_memory(const struct kr_typenode *node)
{
	size_t size = sizeof(*node);
	if (node->kind == KR_NODE_REPEAT)
		size += node_memory(node->child);
	for (uint64_t i = 0; node->kind == KR_NODE_LIST && i < node->count; i++) {
		size += sizeof(node->parts[i]);
		if (i == 0 || node->parts[i].child != node->parts[i - 1].child)
			size += node_memory(node->parts[i].child);
	}
	return size;
}

static size_t memory(struct kr_typemap *map)
{
	size_t size = sizeof(*map) + node_memory(map->layout);
	kr_typemap_put(map);
	return size;
}

/* ---- against the model ---- */

static void check_facts(const struct random_map *random)
{
	const struct kr_typemap *map = random->map;
	const struct model *model = &random->model;
	int64_t lo = INT64_MAX, hi = INT64_MIN;
	for (size_t i = 0; i < model->count; i++) {
		lo = KR_MIN(lo, model->offsets[i]);
		hi = KR_MAX(hi, model->offsets[i] + 1);
	}
	assert_int_equal(kr_typemap_size(map), model->count);
	assert_int_equal(map->lb, model->lb);
	assert_int_equal(map->extent, model->extent);
	assert_int_equal(kr_typemap_true_lb(map), model->count ? lo : 0);
	assert_int_equal(kr_typemap_true_ub(map), model->count ? hi : 0);
	assert_int_equal(kr_typemap_monotonic(map), model_monotonic(model));
	assert_true(kr_typemap_runs(map) <= model->count);
	if (kr_typemap_contiguous_tiles(map))
		assert_true(
			model->extent == (int64_t)model->count && model_monotonic(model) && hi - lo == model->extent);
}

/* Walks [at, end) in steps of random size; neighbours must have been joined. */
static void check_walk(struct kr_cursor *cursor, const struct model *model, int64_t displacement, uint64_t *state)
{
	uint64_t at = cursor->position;
	bool cut = true;
	int64_t before = 0;
	while (at < cursor->end) {
		uint64_t max = random_below(state, 3) ? UINT64_MAX : random_below(state, 20) + 1;
		struct kr_run run;
		int64_t peek;
		assert_true(kr_cursor_peek(cursor, &peek));
		assert_true(kr_cursor_take(cursor, max, &run));
		assert_int_equal(peek, run.offset);
		assert_true(run.length > 0 && run.length <= max && at + run.length <= cursor->end);
		assert_true(cut || run.offset != before);
		for (uint64_t i = 0; i < run.length; i++)
			assert_int_equal(run.offset + (int64_t)i, model_offset(model, displacement, at + i));
		at += run.length;
		assert_int_equal(cursor->position, at);
		before = run.offset + (int64_t)run.length;
		cut = run.length == max;
	}
	assert_false(kr_cursor_take(cursor, 1, &(struct kr_run){0}));
	assert_false(kr_cursor_peek(cursor, &(int64_t){0}));
}

static void check_cursor(const struct random_map *random, uint64_t *state)
{
	const struct model *model = &random->model;
	uint64_t start = random_below(state, 3 * model->count + 1), count = random_below(state, 4 * model->count + 1);
	int64_t displacement = (int64_t)random_below(state, 1000) - 500, offset;
	struct kr_cursor cursor;
	if (model->count == 0) {
		assert_int_equal(kr_cursor_init(&cursor, random->map, 0, 0, 1), -EINVAL);
		assert_int_equal(kr_cursor_init(&cursor, random->map, 0, 5, 0), 0);
		assert_false(kr_cursor_take(&cursor, 1, &(struct kr_run){0}));
		return;
	}
	assert_int_equal(kr_cursor_init(&cursor, random->map, displacement, start, count), 0);
	check_walk(&cursor, model, displacement, state);
	kr_cursor_seek_data(&cursor, start + random_below(state, count + 1));
	check_walk(&cursor, model, displacement, state);
	assert_int_equal(kr_typemap_offset_of(random->map, displacement, start, &offset), 0);
	assert_int_equal(offset, model_offset(model, displacement, start));
}

static void random_maps_hold_the_bytes_of_their_model(void **unused)
{
	struct random_map *random = malloc(sizeof(*random));
	(void)unused;
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		uint64_t state = random_seed(seed);
		random_map(&state, 1 + seed % 5, false, random);
		check_facts(random);
		for (int i = 0; i < 3; i++)
			check_cursor(random, &state);
		kr_typemap_put(random->map);
	}
	free(random);
}

static void check_offsets(const struct random_map *random, uint64_t *state)
{
	const struct model *model = &random->model;
	uint64_t start = random_below(state, 2 * model->count + 1), count = random_below(state, 3 * model->count + 1);
	int64_t displacement = (int64_t)random_below(state, 100), offset, limit;
	struct kr_cursor cursor;
	uint64_t below = 0, all = 0, at;
	assert_int_equal(kr_cursor_init(&cursor, random->map, displacement, start, count), 0);
	offset = displacement - 20 + (int64_t)random_below(state, (uint64_t)(6 * model->extent + 60));
	limit = offset + (int64_t)random_below(state, (uint64_t)(2 * model->extent + 10));
	while (below < count && model_offset(model, displacement, start + below) < offset)
		below++;
	assert_int_equal(cursor_bytes_before(&cursor, offset), below);
	while (model_offset(model, displacement, all) < offset)
		all++;
	assert_int_equal(kr_typemap_bytes_below(random->map, displacement, offset), all);
	kr_cursor_seek_data(&cursor, start + below);
	for (at = start + below; at < start + count && model_offset(model, displacement, at) < limit;) {
		struct kr_run run;
		assert_true(kr_cursor_next(&cursor, limit, &run));
		for (uint64_t i = 0; i < run.length; i++)
			assert_int_equal(run.offset + (int64_t)i, model_offset(model, displacement, at++));
		assert_true(run.offset + (int64_t)run.length <= limit);
	}
	assert_false(kr_cursor_next(&cursor, limit, &(struct kr_run){0}));
	assert_int_equal(cursor.position, at);
	check_walk(&cursor, model, displacement, state);
}

static void monotonic_maps_are_sought_by_offset(void **unused)
{
	struct random_map *random = malloc(sizeof(*random));
	unsigned checked = 0;
	(void)unused;
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		uint64_t state = random_seed(seed + 1000000);
		random_map(&state, 1 + seed % 5, true, random);
		assert_true(model_monotonic(&random->model));
		assert_true(kr_typemap_monotonic(random->map));
		if (random->model.count > 0 && kr_typemap_monotonic_tiles(random->map)) {
			checked++;
			for (int i = 0; i < 6; i++)
				check_offsets(random, &state);
		}
		kr_typemap_put(random->map);
	}
	assert_true(checked > SEEDS / 2);
	free(random);
}

static void a_tile_is_tiled_like_its_map(void **unused)
{
	struct random_map *random = malloc(sizeof(*random));
	(void)unused;
	for (unsigned seed = 0; seed < SEEDS / 4; seed++) {
		uint64_t state = random_seed(seed + 2000000);
		struct kr_typemap *tile;
		struct kr_cursor cursor;
		random_map(&state, 1 + seed % 4, false, random);
		assert_int_equal(kr_typemap_tile(random->map, &tile), 0);
		if (random->model.count > 0) {
			uint64_t count = 3 * random->model.count;
			assert_int_equal(kr_cursor_init(&cursor, tile, 7, random_below(&state, count), count), 0);
			check_walk(&cursor, &random->model, 7, &state);
		}
		kr_typemap_put(tile);
		kr_typemap_put(random->map);
	}
	free(random);
	struct kr_typemap *one, *many, *whole = vector(48000, 1, 4000, bytes(3744));
	whole = resized(0, 48000 * INT64_C(4000), whole);
	assert_int_equal(kr_typemap_tile(whole, &many), 0);
	kr_typemap_put(whole);
	whole = resized(0, 4000, bytes(3744));
	assert_int_equal(kr_typemap_tile(whole, &one), 0);
	kr_typemap_put(whole);
	assert_same(one, many);
}

/* ---- normal form ---- */

static void equal_layouts_are_equal_trees(void **unused)
{
	const int64_t even[] = {0, 8, 16, 24}, nested[] = {0, 8, 100, 108, 200, 208}, touching[] = {0, 4, 8},
		      cube[] = {0, 8, 16, 100, 108, 116, 200, 208, 216}, odd[] = {0, 8, 20, 100, 108, 120};
	(void)unused;
	assert_same(contiguous(3, contiguous(4, bytes(4))), bytes(48));
	assert_same(vector(4, 2, 8, bytes(4)), bytes(32));
	assert_same(vector(4, 1, 8, bytes(4)), indexed(4, even, 1, bytes(4)));
	assert_same(vector(2, 1, 8, bytes(4)), indexed(2, even, 1, bytes(4)));
	assert_same(indexed(3, touching, 1, bytes(4)), bytes(12));
	assert_same(indexed(3, touching, 2, bytes(2)), bytes(12));
	assert_same(vector(3, 1, 100, vector(2, 1, 8, bytes(4))), indexed(6, nested, 1, bytes(4)));
	assert_same(vector(3, 1, 100, vector(3, 1, 8, bytes(4))), indexed(9, cube, 1, bytes(4)));
	assert_same(vector(2, 1, 100, indexed(3, odd, 1, bytes(4))), indexed(6, odd, 1, bytes(4)));
	/* A vector of vectors whose outer stride goes on as the inner one does. */
	assert_same(resized(0, 96, vector(3, 1, 32, resized(0, 32, vector(4, 1, 8, bytes(4))))),
		resized(0, 96, vector(12, 1, 8, bytes(4))));
	assert_same(contiguous(5, resized(0, 4000, bytes(3744))), resized(0, 20000, vector(5, 1, 4000, bytes(3744))));
	assert_same(resized(0, 7, contiguous(0, bytes(4))), resized(0, 7, vector(3, 0, 9, vector(2, 1, 50, bytes(4)))));
	struct kr_typemap *a = vector(4, 1, 8, bytes(4)), *b = vector(4, 1, 9, bytes(4));
	assert_false(same_map(a, b));
	kr_typemap_put(a);
	kr_typemap_put(b);
}

static void many_regions_cost_no_more_than_one(void **unused)
{
	uint64_t sizes[3] = {1000, 1000, 1000}, part[3] = {300, 20, 500}, starts[3] = {1, 2, 3};
	struct kr_darray_dim dims[2] = {{100000, KR_DISTRIBUTE_CYCLIC, 3, 7}, {100000, KR_DISTRIBUTE_CYCLIC, 5, 3}};
	int64_t *displacements = malloc(48000 * sizeof(*displacements));
	struct kr_typemap *map, *element = bytes(8);
	(void)unused;
	for (int64_t i = 0; i < 48000; i++)
		displacements[i] = 4000 * i;
	assert_true(memory(vector(48000, 1, 4000, bytes(3744))) <= 2 * memory(bytes(3744)));
	assert_true(memory(indexed(48000, displacements, 1, bytes(3744))) <= 2 * memory(bytes(3744)));
	assert_int_equal(kr_typemap_subarray(3, sizes, part, starts, KR_ARRAY_C, element, &map), 0);
	assert_int_equal(kr_typemap_runs(map), 6000);
	assert_true(memory(map) < 1000);
	assert_int_equal(kr_typemap_darray(9, 2, dims, KR_ARRAY_C, element, &map), 0);
	assert_true(kr_typemap_runs(map) > 14000 * UINT64_C(6000));
	assert_true(memory(map) < 2000);
	/* Irregular: 24 bytes a region, and one node per length of block. */
	for (int64_t i = 0; i < 48000; i++)
		displacements[i] += i * i % 239;
	assert_true(memory(indexed(48000, displacements, 3, bytes(100))) < 48000 * 25);
	kr_typemap_put(element);
	free(displacements);
}

/* ---- limits ---- */

static void what_does_not_fit_is_refused(void **unused)
{
	struct kr_typemap *map = bytes(8), *huge, *made, *gap = resized(0, KR_TYPEMAP_LIMIT - 1, bytes(8));
	struct kr_part far = {KR_TYPEMAP_LIMIT - 4, 1, map};
	struct kr_cursor cursor;
	(void)unused;
	assert_int_equal(kr_typemap_bytes(UINT64_MAX, &made), -EOVERFLOW);
	assert_int_equal(kr_typemap_contiguous(UINT64_MAX, map, &made), -EOVERFLOW);
	assert_int_equal(kr_typemap_contiguous(UINT64_C(1) << 60, map, &made), -EOVERFLOW);
	assert_int_equal(kr_typemap_vector(1 << 20, 1, INT64_C(1) << 50, map, &made), -EOVERFLOW);
	assert_int_equal(kr_typemap_vector(3, 1, INT64_MIN, map, &made), -EOVERFLOW);
	assert_int_equal(kr_typemap_struct(1, &far, &made), -EOVERFLOW);
	assert_int_equal(kr_typemap_resized(map, 0, INT64_MAX, &made), -EOVERFLOW);
	assert_int_equal(kr_typemap_contiguous((UINT64_C(1) << 59) - 1, map, &huge), 0);
	assert_int_equal(kr_typemap_size(huge), (UINT64_C(1) << 62) - 8);
	assert_int_equal(kr_cursor_init(&cursor, huge, INT64_C(1) << 62, 0, 8), 0);
	assert_int_equal(kr_cursor_init(&cursor, huge, INT64_C(1) << 62, 0, UINT64_C(1) << 62), -EOVERFLOW);
	assert_int_equal(kr_cursor_init(&cursor, huge, 0, UINT64_MAX, 2), -EOVERFLOW);
	assert_int_equal(kr_cursor_init(&cursor, gap, 0, 0, 16), 0);
	assert_int_equal(kr_cursor_init(&cursor, gap, 0, 0, 32), -EOVERFLOW);
	kr_typemap_put(huge);
	kr_typemap_put(gap);
	kr_typemap_put(map);
}

static void depth_is_bounded(void **unused)
{
	struct kr_typemap *map = bytes(1), *made;
	int64_t stride = 2;
	int error = 0, level = 0;
	(void)unused;
	for (; level < 100; level++, stride = stride * 3 / 2 + 2) {
		error = kr_typemap_vector(2, 1, stride, map, &made);
		if (error < 0)
			break;
		kr_typemap_put(map);
		map = made;
	}
	assert_int_equal(error, -E2BIG);
	assert_int_equal(level, KR_TYPEMAP_DEPTH);
	kr_typemap_put(map);
}

/* ---- bytes ---- */

static void serialised_maps_come_back_equal(void **unused)
{
	struct random_map *random = malloc(sizeof(*random));
	(void)unused;
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		uint64_t state = random_seed(seed + 4000000);
		uint8_t *first, *second;
		size_t first_length, second_length;
		struct kr_typemap *map = NULL;
		random_map(&state, 1 + seed % 5, seed & 8, random);
		assert_int_equal(kr_typemap_to_bytes(random->map, &first, &first_length), 0);
		assert_int_equal(kr_typemap_from_bytes(first, first_length, &map), 0);
		assert_true(same_map(map, random->map));
		assert_int_equal(kr_typemap_to_bytes(map, &second, &second_length), 0);
		assert_int_equal(first_length, second_length);
		assert_memory_equal(first, second, first_length);
		for (size_t cut = 0; cut < first_length; cut++)
			assert_int_equal(kr_typemap_from_bytes(first, cut, &(struct kr_typemap *){NULL}), -EBADMSG);
		for (int i = 0; i < 8; i++) {
			struct kr_typemap *other;
			first[random_below(&state, first_length)] ^= (uint8_t)(1 << random_below(&state, 8));
			if (kr_typemap_from_bytes(first, first_length, &other) == 0)
				kr_typemap_put(other);
		}
		kr_typemap_put(map);
		kr_typemap_put(random->map);
		free(first);
		free(second);
	}
	free(random);
}

/* Each list three times the one below: 3^30 regions in few bytes. */
static void shared_parts_are_written_once(void **unused)
{
	struct kr_typemap *map = bytes(1), *made = NULL;
	uint8_t *text;
	size_t length;
	(void)unused;
	for (int i = 0; i < 30; i++) {
		struct kr_part parts[3] = {{0, 1, map}, {INT64_C(3) << i, 1, map}, {INT64_C(10) << i, 1, map}};
		assert_int_equal(kr_typemap_struct(3, parts, &made), 0);
		kr_typemap_put(map);
		map = made;
	}
	assert_int_equal(kr_typemap_to_bytes(map, &text, &length), 0);
	assert_true(length < 16384);
	assert_int_equal(kr_typemap_from_bytes(text, length, &made), 0);
	assert_true(same_map(map, made));
	kr_typemap_put(made);
	kr_typemap_put(map);
	free(text);
}

static void golden_bytes_of_a_vector_stay(void **unused)
{
	static const uint8_t golden[] = {1, 0, 0, 0xc0, 0xb8, 0x02, 2, 0, 0xa0, 0x1d, 1, 5, 0xc0, 0x3e, 1};
	struct kr_typemap *map = resized(0, 20000, vector(5, 1, 4000, bytes(3744)));
	uint8_t *text;
	size_t length;
	(void)unused;
	assert_int_equal(kr_typemap_to_bytes(map, &text, &length), 0);
	assert_int_equal(length, sizeof golden);
	assert_memory_equal(text, golden, length);
	free(text);
	kr_typemap_put(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_maps_hold_the_bytes_of_their_model),
		cmocka_unit_test(monotonic_maps_are_sought_by_offset),
		cmocka_unit_test(a_tile_is_tiled_like_its_map),
		cmocka_unit_test(equal_layouts_are_equal_trees),
		cmocka_unit_test(many_regions_cost_no_more_than_one),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(serialised_maps_come_back_equal),
		cmocka_unit_test(shared_parts_are_written_once),
		cmocka_unit_test(golden_bytes_of_a_vector_stay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
