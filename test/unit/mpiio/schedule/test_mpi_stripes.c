/* Stripes: every byte of a range is in exactly one round, at the aggregator that owns its stripe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "mpiio/schedule/stripes.h"
#include "test/unit/mpiio/datatype/mpi_random_map.h"

/* As the head of stripes.h says; whatever the range. */
static uint32_t owner_of(const struct kr_stripes *stripes, uint64_t offset)
{
	return (uint32_t)(offset / stripes->stripe_size % stripes->aggregators);
}

static uint64_t round_of(const struct kr_stripes *stripes, uint64_t offset)
{
	uint64_t turn = (offset / stripes->stripe_size - stripes->lo / stripes->stripe_size) / stripes->aggregators;
	return turn * stripes->pieces + offset % stripes->stripe_size / stripes->piece_size;
}

static void check_bytes(const struct kr_stripes *stripes)
{
	uint8_t *seen = calloc(1, stripes->hi + 1);
	uint64_t rounds = kr_stripes_rounds(stripes), total = 0;
	for (uint64_t round = 0; round < rounds + 2; round++)
		for (uint32_t aggregator = 0; aggregator < stripes->aggregators; aggregator++) {
			uint64_t lo, hi;
			if (!kr_stripes_window(stripes, round, aggregator, &lo, &hi))
				continue;
			assert_true(round < rounds);
			assert_true(lo >= stripes->lo && lo < hi && hi <= stripes->hi);
			assert_true(hi - lo <= stripes->piece_size);
			assert_int_equal(lo / stripes->stripe_size, (hi - 1) / stripes->stripe_size);
			for (uint64_t at = lo; at < hi; at++) {
				assert_int_equal(seen[at]++, 0);
				assert_int_equal(owner_of(stripes, at), aggregator);
				assert_int_equal(round_of(stripes, at), round);
			}
			total += hi - lo;
		}
	assert_int_equal(total, stripes->hi - stripes->lo);
	free(seen);
}

static void every_byte_is_in_one_round_at_its_owner(void **unused)
{
	(void)unused;
	for (unsigned seed = 0; seed < 4000; seed++) {
		uint64_t state = random_seed(seed);
		uint64_t lo = random_below(&state, 400), hi = lo + random_below(&state, 600),
			 stripe = 1 + random_below(&state, 100);
		struct kr_stripes stripes;
		assert_int_equal(kr_stripes_init(&stripes, stripe, random_below(&state, 120),
					 1 + (uint32_t)random_below(&state, 9), lo, hi),
			0);
		check_bytes(&stripes);
	}
}

static void ends_of_the_number_range_hold(void **unused)
{
	struct kr_stripes stripes;
	uint64_t lo, hi, top = INT64_MAX;
	(void)unused;
	assert_int_equal(kr_stripes_init(&stripes, 4 << 20, 1 << 20, 7, top - 10, top), 0);
	assert_int_equal(kr_stripes_rounds(&stripes), 4);
	assert_true(kr_stripes_window(&stripes, 3, owner_of(&stripes, top - 1), &lo, &hi));
	assert_true(lo == top - 10 && hi == top);
	assert_false(kr_stripes_window(&stripes, UINT64_MAX, 0, &lo, &hi));
	assert_int_equal(kr_stripes_init(&stripes, UINT64_MAX, 0, 3, 0, top), 0);
	assert_int_equal(kr_stripes_rounds(&stripes), 1);
	assert_true(kr_stripes_window(&stripes, 0, 0, &lo, &hi));
	assert_true(lo == 0 && hi == top);
	assert_false(kr_stripes_window(&stripes, 0, 1, &lo, &hi));
	assert_int_equal(kr_stripes_init(&stripes, 4096, 0, 3, 5, 5), 0);
	assert_int_equal(kr_stripes_rounds(&stripes), 0);
	assert_int_equal(kr_stripes_init(&stripes, 0, 0, 3, 0, 5), -EINVAL);
	assert_int_equal(kr_stripes_init(&stripes, 1, 0, 0, 0, 5), -EINVAL);
	assert_int_equal(kr_stripes_init(&stripes, 1, 0, 1, 6, 5), -EINVAL);
	assert_int_equal(kr_stripes_init(&stripes, 1, 0, 1, 0, top + 1), -EINVAL);
	assert_int_equal(kr_stripes_init(&stripes, UINT64_MAX, 1, 1, 0, top), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_is_in_one_round_at_its_owner),
		cmocka_unit_test(ends_of_the_number_range_hold),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
