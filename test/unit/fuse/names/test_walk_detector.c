/* Which directories are worth listing for who goes through them by names that he knows. */
#include "fuse/names/walk_detector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct kr_walk_detector walks;

static int set_up(void **state)
{
	(void)state;
	walks = (struct kr_walk_detector){0};
	return 0;
}

/* How many names are found in PLACE until it is listed. */
static uint32_t found_until_listed(uint64_t place)
{
	uint32_t count = 1;

	while (!kr_walk_detector_asked(&walks, place))
		count++;
	return count;
}

static void a_few_names_found_make_a_place_worth_listing(void **state)
{
	(void)state;
	assert_int_equal(found_until_listed(0), KR_WALK_DETECTOR_FIRST);
	assert_int_equal(found_until_listed(7), KR_WALK_DETECTOR_FIRST);
}

static void what_has_not_helped_is_tried_ever_less_often(void **state)
{
	(void)state;
	assert_int_equal(found_until_listed(7), KR_WALK_DETECTOR_FIRST);
	assert_int_equal(found_until_listed(7), KR_WALK_DETECTOR_FIRST * KR_WALK_DETECTOR_GROWTH);
	assert_int_equal(
		found_until_listed(7), KR_WALK_DETECTOR_FIRST * KR_WALK_DETECTOR_GROWTH * KR_WALK_DETECTOR_GROWTH);
	for (int i = 0; i < 5; i++)
		assert_true(found_until_listed(7) <= KR_WALK_DETECTOR_LAST);
}

static void places_count_by_themselves_as_long_as_they_are_few(void **state)
{
	(void)state;
	for (uint32_t round = 1; round < KR_WALK_DETECTOR_FIRST; round++) {
		for (uint64_t place = 0; place < KR_WALK_DETECTOR; place++)
			assert_false(kr_walk_detector_asked(&walks, place));
	}
	for (uint64_t place = 0; place < KR_WALK_DETECTOR; place++)
		assert_true(kr_walk_detector_asked(&walks, place));
	for (uint32_t round = 0; round < 3 * KR_WALK_DETECTOR_FIRST;
		round++) { /* one too many: each pushes the next one out */
		for (uint64_t place = 100; place <= 100 + KR_WALK_DETECTOR; place++)
			assert_false(kr_walk_detector_asked(&walks, place));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_few_names_found_make_a_place_worth_listing, set_up),
		cmocka_unit_test_setup(what_has_not_helped_is_tried_ever_less_often, set_up),
		cmocka_unit_test_setup(places_count_by_themselves_as_long_as_they_are_few, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
