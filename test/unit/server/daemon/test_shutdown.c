/* What the orderly end of the server does next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/util.h"
#include "server/daemon/shutdown.h"

static const uint64_t begin_ns = 1000 * KR_NS_PER_S, limit_ns = KR_SERVER_STOP_MS * KR_NS_PER_MS,
		      rounds_ns = KR_SERVER_STOP_ROUNDS_MS * KR_NS_PER_MS;

static void jobs_finish_before_sessions_end_and_before_the_last_sync(void **state)
{
	struct kr_shutdown stopping = {.since_ns = begin_ns};

	(void)state;
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns, 1, true), KR_SHUTDOWN_WAIT);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns, 1, true), KR_SHUTDOWN_WAIT);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns, 0, true), KR_SHUTDOWN_END_SESSIONS);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns, 1, true), KR_SHUTDOWN_WAIT);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns, 0, true), KR_SHUTDOWN_SYNC);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns, 1, true), KR_SHUTDOWN_WAIT);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns, 0, true), KR_SHUTDOWN_CLOSE);
	assert_false(stopping.late);
}

static void rounds_that_wait_for_nodes_are_left_alone_after_a_while(void **state)
{
	struct kr_shutdown stopping = {.since_ns = begin_ns};

	(void)state;
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + rounds_ns, 0, false), KR_SHUTDOWN_WAIT);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + rounds_ns + 1, 0, false), KR_SHUTDOWN_END_SESSIONS);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + rounds_ns + 1, 0, false), KR_SHUTDOWN_SYNC);
	/* once, not for each sync */
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + rounds_ns + 2, 0, false), KR_SHUTDOWN_CLOSE);
}

/* The first one has taken almost all of the time. */
static void the_last_sync_has_a_limit_of_its_own(void **state)
{
	struct kr_shutdown stopping = {.since_ns = begin_ns};
	uint64_t sync_ns = begin_ns + limit_ns;

	(void)state;
	assert_int_equal(kr_shutdown_next(&stopping, sync_ns, 0, true), KR_SHUTDOWN_END_SESSIONS);
	assert_int_equal(kr_shutdown_next(&stopping, sync_ns, 0, true), KR_SHUTDOWN_SYNC);
	assert_int_equal(kr_shutdown_next(&stopping, sync_ns + limit_ns, 1, true), KR_SHUTDOWN_WAIT);
	assert_int_equal(kr_shutdown_next(&stopping, sync_ns + limit_ns + 1, 1, true), KR_SHUTDOWN_GIVE_UP);
}

static void a_disk_that_does_not_answer_is_not_waited_for(void **state)
{
	struct kr_shutdown stopping = {.since_ns = begin_ns};

	(void)state;
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns + 1, 1, false), KR_SHUTDOWN_END_SESSIONS);
	assert_true(stopping.late);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns + 1, 1, false), KR_SHUTDOWN_GIVE_UP);
}

static void a_disk_that_answers_at_the_last_moment_is_synced(void **state)
{
	struct kr_shutdown stopping = {.since_ns = begin_ns};

	(void)state;
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns + 1, 1, true), KR_SHUTDOWN_END_SESSIONS);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + limit_ns + 2, 0, true), KR_SHUTDOWN_SYNC);
	assert_int_equal(kr_shutdown_next(&stopping, begin_ns + 2 * limit_ns, 1, true), KR_SHUTDOWN_WAIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_finish_before_sessions_end_and_before_the_last_sync),
		cmocka_unit_test(rounds_that_wait_for_nodes_are_left_alone_after_a_while),
		cmocka_unit_test(the_last_sync_has_a_limit_of_its_own),
		cmocka_unit_test(a_disk_that_does_not_answer_is_not_waited_for),
		cmocka_unit_test(a_disk_that_answers_at_the_last_moment_is_synced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
