/* The extent map against a naive model: one cell per byte. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/extent_map.h"
#include "common/base/util.h"

enum { MODEL_BYTES = 600 };

struct cell {
	uint64_t position, seq; /* seq 0: nothing here */
};
struct model {
	struct cell cells[MODEL_BYTES];
	int64_t pushed_out; /* bytes that callbacks were told of */
};

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (random_state >> 33) % limit;
}

/* The piece must be what the model has there: then it goes. */
static void expect_removed(void *context, const struct kr_extent *piece)
{
	struct model *model = context;

	for (uint64_t i = 0; i < piece->length; i++) {
		struct cell *cell = &model->cells[piece->offset + i];

		assert_int_equal(cell->seq, piece->seq);
		assert_int_equal(cell->position, piece->position + i);
		*cell = (struct cell){0};
		model->pushed_out++;
	}
}

static void ignore_covered(void *context, const struct kr_extent *piece)
{
	struct model *model = context;

	model->pushed_out += (int64_t)piece->length;
}

struct walk {
	const struct model *model;
	uint64_t next, bytes, count;
};

static void compare_extent(void *context, const struct kr_extent *piece)
{
	struct walk *walk = context;

	assert_true(piece->offset >= walk->next);
	assert_true(piece->length > 0);
	for (; walk->next < piece->offset; walk->next++)
		assert_int_equal(walk->model->cells[walk->next].seq, 0);
	for (uint64_t i = 0; i < piece->length; i++) {
		assert_int_equal(walk->model->cells[piece->offset + i].seq, piece->seq);
		assert_int_equal(walk->model->cells[piece->offset + i].position, piece->position + i);
	}
	walk->next = piece->offset + piece->length;
	walk->bytes += piece->length;
	walk->count++;
}

static void compare(const struct model *model, const struct kr_extent_map *map)
{
	struct walk walk = {.model = model};
	uint64_t end, max = 0, min = UINT64_MAX, until = 0, up_to = random_below(300) + 1;

	kr_extent_map_for_each(map, compare_extent, &walk);
	end = walk.next;
	for (; walk.next < MODEL_BYTES; walk.next++)
		assert_int_equal(model->cells[walk.next].seq, 0);
	for (uint64_t i = 0; i < MODEL_BYTES; i++)
		if (model->cells[i].seq) {
			max = KR_MAX(max, model->cells[i].seq);
			min = KR_MIN(min, model->cells[i].seq);
			until = model->cells[i].seq <= up_to ? KR_MAX(until, model->cells[i].seq) : until;
		}
	assert_int_equal(walk.bytes, map->bytes);
	assert_int_equal(walk.count, map->count);
	assert_int_equal(end, kr_extent_map_end(map));
	assert_int_equal(max, kr_extent_map_max_seq(map));
	assert_true(min == kr_extent_map_min_seq(map));
	assert_int_equal(until, kr_extent_map_seq_until(map, up_to));
}

static void compare_find(const struct model *model, const struct kr_extent_map *map)
{
	uint64_t offset = random_below(MODEL_BYTES), expected = offset;
	struct kr_extent found;

	while (expected < MODEL_BYTES && model->cells[expected].seq == 0)
		expected++;
	assert_int_equal(kr_extent_map_find(map, offset, &found), expected < MODEL_BYTES);
	if (expected == MODEL_BYTES)
		return;
	assert_int_equal(found.seq, model->cells[expected].seq);
	assert_true(found.offset <= expected && found.offset + found.length > expected);
	assert_int_equal(found.position + (expected - found.offset), model->cells[expected].position);
}

static void copy_is_equal(const struct model *model, const struct kr_extent_map *map)
{
	struct kr_extent_map copy, moved;

	kr_extent_map_init(&copy);
	kr_extent_map_init(&moved);
	assert_int_equal(kr_extent_map_copy(map, &copy), 0);
	compare(model, &copy);
	kr_extent_map_move(&copy, &moved);
	assert_true(kr_extent_map_empty(&copy));
	compare(model, &moved);
	kr_extent_map_fini(&moved);
}

static void random_step(struct model *model, struct kr_extent_map *map, uint64_t seq)
{
	uint64_t offset = random_below(MODEL_BYTES - 1);
	uint64_t longest = 1 + random_below(90);
	uint64_t length = 1 + random_below(KR_MIN(MODEL_BYTES - offset, longest));
	struct kr_extent extent = {offset, length, seq * 1000, seq};
	int64_t before = (int64_t)map->bytes;

	model->pushed_out = 0;
	switch (random_below(12)) {
	case 0:
		assert_int_equal(kr_extent_map_remove(map, offset, length, expect_removed, model), 0);
		for (uint64_t i = 0; i < length; i++)
			assert_int_equal(model->cells[offset + i].seq, 0);
		assert_int_equal((int64_t)map->bytes, before - model->pushed_out);
		break;
	case 1:
		if (random_below(4) != 0)
			break;
		kr_extent_map_truncate(map, offset, expect_removed, model);
		for (uint64_t i = offset; i < MODEL_BYTES; i++)
			assert_int_equal(model->cells[i].seq, 0);
		break;
	case 2:
		seq = seq > 40 ? seq - random_below(40) : 0;
		kr_extent_map_drop_until(map, seq, expect_removed, model);
		for (uint64_t i = 0; i < MODEL_BYTES; i++)
			assert_true(model->cells[i].seq == 0 || model->cells[i].seq > seq);
		break;
	case 3:
	case 4:
		assert_int_equal(kr_extent_map_insert_under(map, &extent, ignore_covered, model), 0);
		for (uint64_t i = 0; i < length; i++) {
			if (model->cells[offset + i].seq == 0)
				model->cells[offset + i] = (struct cell){extent.position + i, seq};
			else
				model->pushed_out--;
		}
		assert_int_equal(model->pushed_out, 0);
		break;
	default:
		assert_int_equal(kr_extent_map_insert(map, &extent, expect_removed, model), 0);
		assert_int_equal((int64_t)map->bytes, before - model->pushed_out + (int64_t)length);
		for (uint64_t i = 0; i < length; i++) {
			assert_int_equal(model->cells[offset + i].seq, 0);
			model->cells[offset + i] = (struct cell){extent.position + i, seq};
		}
	}
}

static void random_operations_agree_with_one_cell_per_byte(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct model model = {0};
		struct kr_extent_map map;

		random_state = seed;
		kr_extent_map_init(&map);
		for (uint64_t seq = 1; seq <= 300; seq++) {
			random_step(&model, &map, seq);
			compare(&model, &map);
			compare_find(&model, &map);
		}
		copy_is_equal(&model, &map);
		kr_extent_map_fini(&map);
		assert_true(kr_extent_map_empty(&map));
	}
}

static void offsets_up_to_the_largest_file_are_right(void **state)
{
	struct kr_extent_map map;
	struct kr_extent extent = {INT64_MAX - 4096, 4096, 7, 1}, found;

	(void)state;
	kr_extent_map_init(&map);
	assert_int_equal(kr_extent_map_insert(&map, &extent, NULL, NULL), 0);
	assert_int_equal(kr_extent_map_end(&map), INT64_MAX);
	assert_true(kr_extent_map_find(&map, 0, &found));
	assert_int_equal(kr_extent_map_remove(&map, INT64_MAX - 100, UINT64_MAX, NULL, NULL), 0);
	assert_int_equal(map.bytes, 3996);
	kr_extent_map_fini(&map);
}

static void hundred_thousand_sequential_extents_stay_quick(void **state)
{
	struct kr_extent_map map;
	struct kr_extent found;

	(void)state;
	kr_extent_map_init(&map);
	for (uint64_t i = 0; i < 100000; i++) {
		struct kr_extent extent = {i * 10, 10, i * 64, i + 1};

		assert_int_equal(kr_extent_map_insert(&map, &extent, NULL, NULL), 0);
	}
	for (uint64_t i = 0; i < 100000; i++) {
		assert_true(kr_extent_map_find(&map, i * 10 + 5, &found));
		assert_int_equal(found.seq, i + 1);
	}
	kr_extent_map_drop_until(&map, 99999, NULL, NULL);
	assert_int_equal(map.count, 1);
	kr_extent_map_fini(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_agree_with_one_cell_per_byte),
		cmocka_unit_test(offsets_up_to_the_largest_file_are_right),
		cmocka_unit_test(hundred_thousand_sequential_extents_stay_quick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
