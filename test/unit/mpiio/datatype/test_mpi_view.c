/* Views: etype offsets, ends of files and ranges against the model of all bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "mpiio/datatype/view.h"
#include "test/unit/mpiio/datatype/mpi_random_map.h"

enum { SEEDS = 3000 };

/* A random view with data; false when this seed makes none. */
static bool random_view(uint64_t *state, struct random_map *random, struct kr_view *view)
{
	uint64_t etype = 1 + random_below(state, 4);
	int64_t displacement = (int64_t)random_below(state, 50);
	random_map(state, 1 + (unsigned)random_below(state, 4), true, random);
	if (random->model.count == 0 || random->model.count % etype != 0 ||
		random->model.offsets[0] + displacement < 0) {
		assert_int_equal(kr_view_init(view, displacement, etype, random->map), -EINVAL);
		kr_view_fini(view);
		kr_typemap_put(random->map);
		return false;
	}
	assert_int_equal(kr_view_init(view, displacement, etype, random->map), 0);
	kr_typemap_put(random->map);
	return true;
}

static void check_view(const struct kr_view *view, const struct model *model, uint64_t *state)
{
	uint64_t start = random_below(state, 3 * model->count), count = 1 + random_below(state, 2 * model->count);
	uint64_t file_size = random_below(state, (uint64_t)(6 * model->extent + 100)), below = 0;
	int64_t offset, lo, hi;
	struct kr_cursor cursor;
	while (model_offset(model, view->displacement, below) < (int64_t)file_size)
		below++;
	assert_int_equal(kr_view_bytes_below(view, (int64_t)file_size), below);
	assert_int_equal(kr_view_end(view, file_size), (below + view->etype_size - 1) / view->etype_size);
	assert_int_equal(kr_view_range(view, start, count, &lo, &hi), 0);
	assert_int_equal(lo, model_offset(model, view->displacement, start));
	assert_int_equal(hi, model_offset(model, view->displacement, start + count - 1) + 1);
	assert_int_equal(kr_view_cursor(view, start, count, &cursor), 0);
	assert_true(kr_cursor_peek(&cursor, &offset));
	assert_int_equal(offset, lo);
}

/* The same file bytes for the same data bytes, over three tiles. */
static void check_same(const struct kr_view *a, const struct kr_view *b, const struct model *model)
{
	for (uint64_t i = 0; i < 3 * model->count; i++) {
		int64_t a_lo, b_lo, hi;
		assert_int_equal(kr_view_range(a, i, 1, &a_lo, &hi), 0);
		assert_int_equal(kr_view_range(b, i, 1, &b_lo, &hi), 0);
		assert_int_equal(a_lo, b_lo);
	}
}

static void views_agree_with_the_model(void **unused)
{
	struct random_map *random = malloc(sizeof(*random));
	unsigned made = 0;
	(void)unused;
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		uint64_t state = random_seed(seed + 5000000);
		struct kr_view view, other;
		struct kr_typemap *tile;
		uint8_t *bytes;
		size_t length;
		if (!random_view(&state, random, &view))
			continue;
		made++;
		for (int i = 0; i < 5; i++)
			check_view(&view, &random->model, &state);
		assert_int_equal(kr_typemap_to_bytes(view.filetype, &bytes, &length), 0);
		assert_int_equal(kr_typemap_from_bytes(bytes, length, &tile), 0);
		assert_int_equal(kr_view_init(&other, view.displacement, 1, tile), 0);
		check_same(&view, &other, &random->model);
		kr_view_fini(&other);
		kr_typemap_put(tile);
		free(bytes);
		kr_view_fini(&view);
	}
	assert_true(made > SEEDS / 4);
	free(random);
}

static void bytes_and_doubles_have_no_holes(void **unused)
{
	struct kr_view bytes, doubles;
	struct kr_typemap *map;
	int64_t lo, hi;
	struct kr_cursor cursor;
	struct kr_run run;
	(void)unused;
	assert_int_equal(kr_typemap_bytes(1, &map), 0);
	assert_int_equal(kr_view_init(&bytes, 0, 1, map), 0);
	kr_typemap_put(map);
	assert_true(kr_view_contiguous(&bytes));
	assert_int_equal(kr_view_range(&bytes, UINT64_C(1) << 40, 1, &lo, &hi), 0);
	assert_int_equal(lo, INT64_C(1) << 40);
	assert_int_equal(kr_view_end(&bytes, 12345), 12345);
	assert_int_equal(kr_view_cursor(&bytes, 100, UINT64_C(1) << 50, &cursor), 0);
	assert_true(kr_cursor_take(&cursor, UINT64_MAX, &run));
	assert_true(run.offset == 100 && run.length == UINT64_C(1) << 50);
	assert_int_equal(kr_view_range(&bytes, UINT64_MAX - 3, 2, &lo, &hi), -EOVERFLOW);
	assert_int_equal(kr_typemap_bytes(8, &map), 0);
	assert_int_equal(kr_view_init(&doubles, 16, 8, map), 0);
	assert_true(kr_view_contiguous(&doubles));
	assert_int_equal(kr_view_end(&doubles, 17), 1);
	assert_int_equal(kr_view_end(&doubles, 24), 1);
	assert_int_equal(kr_view_end(&doubles, 25), 2);
	assert_int_equal(kr_view_end(&doubles, 3), 0);
	assert_int_equal(kr_view_range(&doubles, UINT64_C(1) << 63, 1, &lo, &hi), -EOVERFLOW);
	kr_typemap_put(map);
	kr_view_fini(&doubles);
	kr_view_fini(&bytes);
}

static void what_cannot_be_a_view_is_refused(void **unused)
{
	struct kr_typemap *map, *back;
	struct kr_view view;
	(void)unused;
	assert_int_equal(kr_typemap_bytes(6, &map), 0);
	assert_int_equal(kr_view_init(&view, 0, 4, map), -EINVAL);
	assert_int_equal(kr_view_init(&view, -1, 2, map), -EINVAL);
	assert_int_equal(kr_view_init(&view, 0, 0, map), -EINVAL);
	assert_int_equal(kr_typemap_vector(2, 1, -6, map, &back), 0);
	assert_int_equal(kr_view_init(&view, 100, 2, back), -EINVAL);
	kr_typemap_put(back);
	assert_int_equal(kr_typemap_resized(map, 0, 5, &back), 0);
	assert_int_equal(kr_view_init(&view, 100, 2, back), -EINVAL);
	kr_typemap_put(back);
	assert_int_equal(kr_typemap_bytes(0, &back), 0);
	assert_int_equal(kr_view_init(&view, 0, 1, back), -EINVAL);
	kr_view_fini(&view);
	kr_typemap_put(back);
	kr_typemap_put(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_agree_with_the_model),
		cmocka_unit_test(bytes_and_doubles_have_no_holes),
		cmocka_unit_test(what_cannot_be_a_view_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
