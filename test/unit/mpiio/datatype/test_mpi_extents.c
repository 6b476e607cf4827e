/* Unions of runs against an array of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "mpiio/datatype/extents.h"
#include "mpiio/datatype/view.h"
#include "test/unit/effort.h"
#include "test/unit/mpiio/datatype/mpi_random_map.h"
#include "test/unit/mpiio/datatype/cursor_bytes.h"

enum { RANKS = 9, SPACE = 4096, SEEDS = KR_EFFORT(4000, 1500) };

struct fixture {
	struct random_map *random;
	struct kr_cursor cursors[RANKS];
	struct kr_cursor *pointers[RANKS];
	struct kr_typemap *maps[RANKS];
	size_t count;
	int64_t lo, limit;
	uint8_t writers[SPACE];
};

static void make_ranks(struct fixture *f, uint64_t *state)
{
	memset(f->writers, 0, sizeof f->writers);
	f->lo = (int64_t)random_below(state, 600);
	f->limit = f->lo + (int64_t)random_below(state, 800);
	f->count = random_below(state, RANKS + 1);
	for (size_t rank = 0; rank < f->count; rank++) {
		struct model *model = &f->random->model;
		int64_t displacement = 100 + (int64_t)random_below(state, 400);
		do
			random_map(state, 1 + (unsigned)random_below(state, 3), true, f->random);
		while (model->count == 0 && (kr_typemap_put(f->random->map), true));
		uint64_t bytes = random_below(state, 3 * model->count);
		f->maps[rank] = f->random->map;
		f->pointers[rank] = &f->cursors[rank];
		assert_int_equal(kr_cursor_init(&f->cursors[rank], f->random->map, displacement, 0, bytes), 0);
		kr_cursor_seek_data(&f->cursors[rank], cursor_bytes_before(&f->cursors[rank], f->lo));
		for (uint64_t i = 0; i < bytes; i++) {
			int64_t at = model_offset(model, displacement, i);
			if (at < f->lo || at >= f->limit)
				continue;
			f->writers[at]++;
		}
	}
}

static void check_union(const struct fixture *f, const struct kr_extents *extents)
{
	int64_t at = f->lo;
	uint64_t bytes = 0;
	bool overlap = false;
	for (size_t i = 0; i < extents->count; i++) {
		const struct kr_run *run = &extents->runs[i];
		assert_true(run->length > 0 && (i == 0 || run->offset > at));
		for (; at < run->offset; at++)
			assert_int_equal(f->writers[at], 0);
		for (; at < run->offset + (int64_t)run->length; at++)
			assert_true(f->writers[at] > 0);
	}
	for (; at < f->limit; at++)
		assert_int_equal(f->writers[at], 0);
	for (at = f->lo; at < f->limit; at++) {
		bytes += f->writers[at] > 0;
		overlap = overlap || f->writers[at] > 1;
	}
	assert_int_equal(extents->bytes, bytes);
	assert_int_equal(extents->overlap, overlap);
}

static void unions_are_exact(void **unused)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct kr_extents extents;
	unsigned overlaps = 0, plain = 0;
	(void)unused;
	f->random = malloc(sizeof(*f->random));
	kr_extents_init(&extents);
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		uint64_t state = random_seed(seed + 6000000);
		make_ranks(f, &state);
		assert_int_equal(kr_extents_union(&extents, f->pointers, f->count, f->limit), 0);
		check_union(f, &extents);
		for (size_t rank = 0; rank < f->count; rank++)
			assert_false(kr_cursor_next(&f->cursors[rank], f->limit, &(struct kr_run){0}));
		overlaps += extents.overlap;
		plain += !extents.overlap && extents.count > 1;
		for (size_t rank = 0; rank < f->count; rank++)
			kr_typemap_put(f->maps[rank]);
	}
	assert_true(overlaps > SEEDS / 8 && plain > SEEDS / 20);
	kr_extents_fini(&extents);
	free(f->random);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unions_are_exact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
