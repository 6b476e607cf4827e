/* Who has locks in which files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fuse/file/lock_owners.h"

static void a_lock_counts_for_all_other_files_of_its_owner(void **state)
{
	struct kr_lock_owners *lockers = kr_lock_owners_new();
	int one, two;

	(void)state;
	assert_false(kr_lock_owners_elsewhere(lockers, 7, &two));
	kr_lock_owners_count(lockers, 7, &one, 1);
	assert_false(kr_lock_owners_elsewhere(lockers, 7, &one));
	assert_true(kr_lock_owners_elsewhere(lockers, 7, &two));
	assert_false(kr_lock_owners_elsewhere(lockers, 8, &two));
	kr_lock_owners_count(lockers, 7, &two, 1);
	assert_true(kr_lock_owners_elsewhere(lockers, 7, &one));
	kr_lock_owners_free(lockers);
}

static void it_counts_until_the_last_of_a_file_is_gone(void **state)
{
	struct kr_lock_owners *lockers = kr_lock_owners_new();
	int one, two;

	(void)state;
	for (uint64_t owner = 0; owner < 100; owner++) {
		kr_lock_owners_count(lockers, owner, &one, 1);
		kr_lock_owners_count(lockers, owner, &one, 1);
	}
	for (uint64_t owner = 0; owner < 100; owner++) {
		kr_lock_owners_count(lockers, owner, &one, -1);
		assert_true(kr_lock_owners_elsewhere(lockers, owner, &two));
		kr_lock_owners_count(lockers, owner, &one, -1);
		assert_false(kr_lock_owners_elsewhere(lockers, owner, &two));
	}
	kr_lock_owners_free(lockers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_counts_for_all_other_files_of_its_owner),
		cmocka_unit_test(it_counts_until_the_last_of_a_file_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
