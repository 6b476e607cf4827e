/* Bytes that were refused, and whether others can have written since. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "server/leases/cover.h"

static void leases_given_back_without_refused_bytes_leave_no_doubt(void **state)
{
	struct kr_cover cover = {0};

	(void)state;
	kr_cover_gave_up(&cover, 5);
	assert_int_equal(cover.lost, 0);
	kr_cover_flushed(&cover, -EAGAIN);
	kr_cover_gave_up(&cover, 6);
	assert_int_equal(cover.lost, 0);
	kr_cover_flushed(&cover, -ENOSPC);
	kr_cover_flushed(&cover, 0);
	kr_cover_gave_up(&cover, 7);
	assert_int_equal(cover.lost, 0);
}

static void refused_bytes_are_in_doubt_since_the_first_lease_that_was_given_back(void **state)
{
	struct kr_cover cover = {0};

	(void)state;
	kr_cover_flushed(&cover, -EDQUOT);
	assert_int_equal(cover.lost, 0);
	kr_cover_gave_up(&cover, 5);
	kr_cover_gave_up(&cover, 9);
	assert_int_equal(cover.lost, 5);
	kr_cover_flushed(&cover, -ENOTCONN);
	assert_int_equal(cover.lost, 5);
}

static void judged_bytes_that_are_refused_again_are_in_doubt_again(void **state)
{
	struct kr_cover cover = {0};

	(void)state;
	kr_cover_flushed(&cover, -ENOSPC);
	kr_cover_gave_up(&cover, 5);
	kr_cover_judged(&cover, false);
	assert_int_equal(cover.lost, 0);
	kr_cover_gave_up(&cover, 8);
	assert_int_equal(cover.lost, 8);
	kr_cover_judged(&cover, true);
	kr_cover_gave_up(&cover, 9);
	assert_int_equal(cover.lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leases_given_back_without_refused_bytes_leave_no_doubt),
		cmocka_unit_test(refused_bytes_are_in_doubt_since_the_first_lease_that_was_given_back),
		cmocka_unit_test(judged_bytes_that_are_refused_again_are_in_doubt_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
