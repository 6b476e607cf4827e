/* Who is awaited after a start of the server. */
#include "server/session/grace.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint8_t one[16] = {1}, two[16] = {2}, pending_conn[16] = {9};
static const struct kr_key_owner alice = {.kind = KR_KEY_USER, .uid = 1000}, nobody = {0};

static void without_former_nodes_there_is_no_grace(void **state)
{
	struct kr_grace grace;

	(void)state;
	kr_grace_init(&grace);
	assert_false(kr_grace_start(&grace, 1000, 20, false));
	assert_false(kr_grace_due(&grace, UINT64_MAX, false));
	assert_false(kr_grace_node_done(&grace, one));
	kr_grace_fini(&grace);
}

static void grace_ends_with_the_last_awaited_node(void **state)
{
	struct kr_grace grace;

	(void)state;
	kr_grace_init(&grace);
	kr_grace_await(&grace, one, &alice);
	kr_grace_await(&grace, two, &nobody);
	kr_grace_await(&grace, two, &nobody);
	assert_int_equal(kr_grace_awaited(&grace), 2);
	assert_true(kr_grace_start(&grace, 0, 20, false));
	assert_false(kr_grace_node_done(&grace, pending_conn));
	assert_false(kr_grace_node_done(&grace, one));
	assert_false(kr_grace_node_done(&grace, one));
	assert_false(kr_grace_due(&grace, 0, false));
	assert_true(kr_grace_node_done(&grace, two));
	assert_true(kr_grace_due(&grace, 0, false));
	kr_grace_fini(&grace);
}

static void after_a_kill_there_is_grace_without_former_nodes(void **state)
{
	struct kr_grace grace;

	(void)state;
	kr_grace_init(&grace);
	assert_true(kr_grace_start(&grace, 0, 20, true));
	assert_true(grace.unsynced);
	assert_true(kr_grace_due(&grace, 0, false));
	kr_grace_fini(&grace);
}

static void grace_ends_after_the_lease_time(void **state)
{
	struct kr_grace grace;

	(void)state;
	kr_grace_init(&grace);
	kr_grace_await(&grace, one, &alice);
	kr_grace_start(&grace, 500, 20, false);
	assert_false(kr_grace_due(&grace, 499 + 20 * KR_NS_PER_MS, false));
	assert_true(kr_grace_due(&grace, 500 + 20 * KR_NS_PER_MS, false));
	kr_grace_fini(&grace);
}

static void grace_waits_for_a_node_that_reclaims_but_not_for_ever(void **state)
{
	struct kr_grace grace;

	(void)state;
	kr_grace_init(&grace);
	kr_grace_await(&grace, one, &alice);
	kr_grace_start(&grace, 0, 20, false);
	assert_true(kr_grace_awaits(&grace, one, NULL));
	assert_false(kr_grace_awaits(&grace, two, NULL));
	assert_false(kr_grace_due(&grace, 21 * KR_NS_PER_MS, true));
	assert_true(kr_grace_due(&grace, 20 * KR_NS_PER_MS * KR_GRACE_LEASES, true));
	kr_grace_fini(&grace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_former_nodes_there_is_no_grace),
		cmocka_unit_test(grace_ends_with_the_last_awaited_node),
		cmocka_unit_test(after_a_kill_there_is_grace_without_former_nodes),
		cmocka_unit_test(grace_ends_after_the_lease_time),
		cmocka_unit_test(grace_waits_for_a_node_that_reclaims_but_not_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
