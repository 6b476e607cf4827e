/* Which ctimes a new instance doubts, and for how long. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "server/doubts.h"
#include "test/unit/directory.h"

#define S KR_NS_PER_S
#define REACH (KR_DOUBTS_REACH_S * S)

static void what_changed_around_the_end_of_the_former_instance_is_doubted(void **state)
{
	struct kr_doubts doubts = {0};

	(void)state;
	assert_int_equal(kr_doubts_of(&doubts, 1000 * S), 0);
	kr_doubts_start(&doubts, 1000 * S, 1007 * S, 5);
	assert_int_equal(kr_doubts_of(&doubts, 1000 * S - REACH - 1), 0);
	assert_int_equal(kr_doubts_of(&doubts, 1000 * S - REACH), 5);
	assert_int_equal(kr_doubts_of(&doubts, 1007 * S), 5);
	assert_int_equal(kr_doubts_of(&doubts, 1007 * S + REACH + 1), 0);
}

static void later_starts_leave_it_as_it_is(void **state)
{
	struct kr_doubts doubts = {0};

	(void)state;
	kr_doubts_start(&doubts, 1000 * S, 1007 * S, 5);
	kr_doubts_start(&doubts, 9000 * S, 9001 * S, 6);
	assert_int_equal(kr_doubts_of(&doubts, 1000 * S), 5);
	assert_int_equal(kr_doubts_of(&doubts, 9000 * S), 6);
	assert_int_equal(kr_doubts_of(&doubts, 5000 * S), 0);
}

static void a_clock_that_was_set_back_between_is_covered(void **state)
{
	struct kr_doubts doubts = {0};

	(void)state;
	kr_doubts_start(&doubts, 9000 * S, 5000 * S, 5);
	assert_int_equal(kr_doubts_of(&doubts, 5000 * S), 5);
	assert_int_equal(kr_doubts_of(&doubts, 9000 * S), 5);
	kr_doubts_start(&doubts, 7 * S, 8 * S, 6); /* before there were that many seconds */
	assert_int_equal(kr_doubts_of(&doubts, 0), 6);
}

static void starts_in_a_row_are_one_and_the_last(void **state)
{
	struct kr_doubts doubts = {0};

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		kr_doubts_start(&doubts, (1000 + i) * S, (1001 + i) * S, i + 1);
	assert_int_equal(doubts.count, 1);
	assert_int_equal(kr_doubts_of(&doubts, 1000 * S), 1000);
	assert_int_equal(kr_doubts_of(&doubts, 2000 * S), 1000);
}

static void of_too_many_the_oldest_goes(void **state)
{
	struct kr_doubts doubts = {0};

	(void)state;
	for (uint64_t i = 1; i <= KR_DOUBTS_MAX + 1; i++)
		kr_doubts_start(&doubts, i * 1000 * S, i * 1000 * S, i);
	assert_int_equal(doubts.count, KR_DOUBTS_MAX);
	assert_int_equal(kr_doubts_of(&doubts, 1000 * S), 0);
	assert_int_equal(kr_doubts_of(&doubts, 2000 * S), 2);
	assert_int_equal(kr_doubts_of(&doubts, (KR_DOUBTS_MAX + 1) * 1000 * S), KR_DOUBTS_MAX + 1);
}

static void they_are_kept_and_the_first_instance_has_none(void **state)
{
	char path[] = "/tmp/kr-test-doubts-XXXXXX";
	struct kr_doubts doubts;
	uint64_t now = kr_clock_real_ns();
	int dir;

	(void)state;
	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY);
	assert_int_equal(kr_doubts_open(&doubts, dir, 0, 1), 0);
	assert_int_equal(doubts.count, 0);
	assert_int_equal(kr_doubts_open(&doubts, dir, now / 2, 2), 0);
	assert_int_equal(kr_doubts_of(&doubts, now / 2), 2);
	assert_int_equal(kr_doubts_of(&doubts, now), 2);
	assert_int_equal(kr_doubts_open(&doubts, dir, now + 9 * REACH, 3), 0);
	assert_int_equal(kr_doubts_of(&doubts, now + REACH), 3);
	assert_int_equal(kr_doubts_open(&doubts, dir, 0, 4), 0);
	assert_int_equal(doubts.count, 1);
	assert_int_equal(kr_doubts_of(&doubts, now / 2), 3);
	close(dir);
	directory_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_changed_around_the_end_of_the_former_instance_is_doubted),
		cmocka_unit_test(later_starts_leave_it_as_it_is),
		cmocka_unit_test(a_clock_that_was_set_back_between_is_covered),
		cmocka_unit_test(starts_in_a_row_are_one_and_the_last),
		cmocka_unit_test(of_too_many_the_oldest_goes),
		cmocka_unit_test(they_are_kept_and_the_first_instance_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
