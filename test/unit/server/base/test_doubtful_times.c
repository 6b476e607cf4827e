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

#include "common/base/util.h"
#include "server/base/doubtful_times.h"
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

static void what_reaches_further_is_not_taken_over(void **state)
{
	struct kr_doubts doubts = {0};

	(void)state;
	kr_doubts_start(&doubts, 9000 * S, 5000 * S, 5); /* the clock was set back */
	for (uint64_t i = 0; i < 10; i++)
		kr_doubts_start(&doubts, (5001 + i) * S, (5002 + i) * S, 6 + i);
	assert_int_equal(doubts.count, 2);
	assert_int_equal(kr_doubts_of(&doubts, 5001 * S), 15);
	assert_int_equal(kr_doubts_of(&doubts, 5000 * S - REACH), 5);
	assert_int_equal(kr_doubts_of(&doubts, 9000 * S + REACH), 5);
	kr_doubts_start(&doubts, 5011 * S, 5011 * S + 9 * REACH, 16); /* it meets the first one's, too */
	assert_int_equal(doubts.count, 2);
	assert_int_equal(kr_doubts_of(&doubts, 5001 * S), 16);
	assert_int_equal(kr_doubts_of(&doubts, 9000 * S), 5);
}

static void of_too_many_the_oldest_become_one(void **state)
{
	struct kr_doubts doubts = {0};

	(void)state;
	for (uint64_t i = 1; i <= KR_DOUBTS_MAX + 2; i++)
		kr_doubts_start(&doubts, i * 1000 * S, i * 1000 * S, i);
	assert_int_equal(doubts.count, KR_DOUBTS_MAX);
	assert_int_equal(kr_doubts_of(&doubts, 1000 * S - REACH - 1), 0);
	assert_int_equal(kr_doubts_of(&doubts, 1000 * S - REACH), 1);
	assert_int_equal(kr_doubts_of(&doubts, 1500 * S), 1); /* between them */
	assert_int_equal(kr_doubts_of(&doubts, 3000 * S + REACH), 1);
	assert_int_equal(kr_doubts_of(&doubts, 3500 * S), 0);
	assert_int_equal(kr_doubts_of(&doubts, 4000 * S), 4);
	assert_int_equal(kr_doubts_of(&doubts, (KR_DOUBTS_MAX + 2) * 1000 * S), KR_DOUBTS_MAX + 2);
}

/* Else a node could have what the first instance told, with the version that the file has now. */
static void what_two_doubt_that_become_one_is_not_as_the_first_told_it(void **state)
{
	struct kr_doubts doubts = {0};

	(void)state;
	kr_doubts_start(&doubts, 9000 * S, 5000 * S, 1);
	kr_doubts_start(&doubts, 6000 * S, 6000 * S, 2);
	for (uint64_t i = 3; i <= KR_DOUBTS_MAX + 1; i++)
		kr_doubts_start(&doubts, (20 + i) * 1000 * S, (20 + i) * 1000 * S, i);
	assert_int_equal(doubts.count, KR_DOUBTS_MAX);
	assert_int_equal(kr_doubts_of(&doubts, 6000 * S), 2);
	assert_true(kr_doubts_of(&doubts, 5000 * S - REACH) > 0);
	assert_true(kr_doubts_of(&doubts, 9000 * S + REACH) > 0);
}

static int state_directory(char *path)
{
	int dir;

	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY);
	assert_true(dir >= 0);
	return dir;
}

static void they_are_kept_and_the_first_instance_has_none(void **state)
{
	char path[] = "/tmp/kr-test-doubts-XXXXXX";
	struct kr_doubts doubts, kept;
	uint64_t now = kr_clock_real_ns();
	int dir = state_directory(path);

	(void)state;
	assert_int_equal(kr_doubts_open(&doubts, dir, 0, 1), 0);
	assert_int_equal(doubts.count, 0);
	assert_int_equal(kr_doubts_open(&doubts, dir, now / 2, 2), 0);
	assert_int_equal(kr_doubts_of(&doubts, now / 2), 2);
	assert_int_equal(kr_doubts_of(&doubts, now), 2);
	assert_int_equal(kr_doubts_open(&doubts, dir, now + 9 * REACH, 3), 0);
	assert_int_equal(kr_doubts_of(&doubts, now + REACH), 3);
	assert_int_equal(kr_doubts_open(&kept, dir, 0, 1), 0);
	assert_int_equal(kept.count, doubts.count);
	assert_memory_equal(kept.list, doubts.list, doubts.count * sizeof(*doubts.list));
	assert_int_equal(kr_doubts_of(&kept, now / 2), 3);
	close(dir);
	directory_remove(path);
}

static void when_nobody_knows_when_the_former_instance_was_alive_all_is_doubted(void **state)
{
	char path[] = "/tmp/kr-test-doubts-XXXXXX";
	struct kr_doubts doubts;
	int dir = state_directory(path);
	uint64_t now = kr_clock_real_ns();

	(void)state;
	assert_int_equal(kr_doubts_open(&doubts, dir, 0, 7), 0);
	assert_int_equal(kr_doubts_of(&doubts, 0), 7);
	assert_int_equal(kr_doubts_of(&doubts, now + REACH), 7);
	assert_int_equal(kr_doubts_of(&doubts, now + 9 * REACH), 0);
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
		cmocka_unit_test(what_reaches_further_is_not_taken_over),
		cmocka_unit_test(of_too_many_the_oldest_become_one),
		cmocka_unit_test(what_two_doubt_that_become_one_is_not_as_the_first_told_it),
		cmocka_unit_test(they_are_kept_and_the_first_instance_has_none),
		cmocka_unit_test(when_nobody_knows_when_the_former_instance_was_alive_all_is_doubted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
