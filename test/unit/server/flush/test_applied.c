/* What is remembered of applied journals, and what is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/flush/applied.h"

static struct kr_fid fid(uint32_t number)
{
	struct kr_fid file = {.length = 4};

	memcpy(file.bytes, &number, 4);
	return file;
}

static const uint8_t a[16] = "a", b[16] = "b";

static void the_highest_number_counts_for_each_node_and_file(void **state)
{
	const struct kr_fid one = fid(1), two = fid(2);
	struct kr_applied applied;

	(void)state;
	kr_applied_init(&applied);
	assert_int_equal(kr_applied_seq(&applied, &one, a), 0);
	kr_applied_note(&applied, &one, a, 7);
	kr_applied_note(&applied, &one, a, 5);
	kr_applied_note(&applied, &one, b, 9);
	assert_int_equal(kr_applied_seq(&applied, &one, a), 7);
	assert_int_equal(kr_applied_seq(&applied, &one, b), 9);
	assert_int_equal(kr_applied_seq(&applied, &two, a), 0);
	kr_applied_fini(&applied);
}

static void a_lost_file_is_forgotten_alone(void **state)
{
	const struct kr_fid one = fid(1), two = fid(2);
	struct kr_applied applied;

	(void)state;
	kr_applied_init(&applied);
	kr_applied_note(&applied, &one, a, 7);
	kr_applied_note(&applied, &one, b, 8);
	kr_applied_note(&applied, &two, a, 9);
	kr_applied_lose(&applied, &one);
	assert_int_equal(kr_applied_seq(&applied, &one, a), 0);
	assert_int_equal(kr_applied_seq(&applied, &one, b), 0);
	assert_int_equal(kr_applied_seq(&applied, &two, a), 9);
	kr_applied_fini(&applied);
}

static void what_rounds_brought_is_known_without_a_note_and_after_a_failed_sync(void **state)
{
	const struct kr_fid one = fid(1);
	struct kr_applied applied;

	(void)state;
	kr_applied_init(&applied);
	kr_applied_note(&applied, &one, a, 7);
	kr_applied_reach(&applied, &one, a, 9);
	assert_int_equal(kr_applied_seq(&applied, &one, a), 7);
	assert_int_equal(kr_applied_reached(&applied, &one, a), 9);
	kr_applied_lose(&applied, &one);
	assert_int_equal(kr_applied_seq(&applied, &one, a), 0);
	assert_int_equal(kr_applied_reached(&applied, &one, a), 9);
	assert_int_equal(kr_applied_reached(&applied, &one, b), 0);
	kr_applied_fini(&applied);
}

static void the_least_recently_used_goes_first(void **state)
{
	struct kr_applied applied;
	struct kr_fid file;

	(void)state;
	kr_applied_init(&applied);
	for (uint32_t i = 0; i < KR_APPLIED_MAX; i++) {
		file = fid(i);
		kr_applied_note(&applied, &file, a, i + 1);
	}
	file = fid(0);
	assert_int_equal(kr_applied_seq(&applied, &file, a), 1);
	file = fid(KR_APPLIED_MAX);
	kr_applied_note(&applied, &file, a, 5);
	file = fid(0);
	assert_int_equal(kr_applied_seq(&applied, &file, a), 1);
	file = fid(1);
	assert_int_equal(kr_applied_seq(&applied, &file, a), 0);
	kr_applied_fini(&applied);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_highest_number_counts_for_each_node_and_file),
		cmocka_unit_test(a_lost_file_is_forgotten_alone),
		cmocka_unit_test(what_rounds_brought_is_known_without_a_note_and_after_a_failed_sync),
		cmocka_unit_test(the_least_recently_used_goes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
