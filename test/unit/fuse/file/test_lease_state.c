/* The node's half of leases: single rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fuse/file/lease_state.h"

static enum kr_lease_state_action next(struct kr_lease_state *holder, uint8_t *kinds)
{
	return kr_lease_state_next(holder, kinds);
}

static void a_recall_of_what_is_not_held_is_answered_at_once(void **state)
{
	struct kr_lease_state holder;
	uint8_t kinds;

	(void)state;
	kr_lease_state_init(&holder);
	kr_lease_state_recalled(&holder, KR_LEASE_WRITE);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
}

static void a_recall_of_write_waits_for_writers_and_the_flush(void **state)
{
	struct kr_lease_state holder;
	uint8_t kinds;

	(void)state;
	kr_lease_state_init(&holder);
	kr_lease_state_gained(&holder, KR_LEASE_WRITE);
	assert_true(kr_lease_state_enter(&holder, KR_LEASE_WRITE));
	kr_lease_state_dirtied(&holder, false);
	kr_lease_state_recalled(&holder, KR_LEASE_WRITE);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
	assert_false(kr_lease_state_enter(&holder, KR_LEASE_WRITE));
	kr_lease_state_leave(&holder, KR_LEASE_WRITE, 0);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_FLUSH);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
	kr_lease_state_flushed(&holder, true, true);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
	assert_int_equal(holder.held, 0);
}

static void a_refused_flush_does_not_hold_a_recall_up(void **state)
{
	struct kr_lease_state holder;
	uint8_t kinds;

	(void)state;
	kr_lease_state_init(&holder);
	kr_lease_state_gained(&holder, KR_LEASE_WRITE);
	kr_lease_state_dirtied(&holder, false);
	kr_lease_state_recalled(&holder, KR_LEASE_WRITE);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_FLUSH);
	kr_lease_state_flushed(&holder, false, false);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
	kr_lease_state_retry(&holder);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ASK);
	assert_int_equal(kinds, KR_LEASE_WRITE);
}

static void nothing_is_given_up_while_bytes_are_on_their_way(void **state)
{
	struct kr_lease_state holder;
	uint8_t kinds;

	(void)state;
	kr_lease_state_init(&holder);
	kr_lease_state_reclaimed(&holder, KR_LEASE_ALL, true);
	kr_lease_state_keep(&holder, true);
	kr_lease_state_release(&holder, KR_LEASE_WRITE);
	kr_lease_state_recalled(&holder, KR_LEASE_READ);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
	kr_lease_state_keep(&holder, false);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_RETURN);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
}

/* Somebody here may have read it together with what another node writes next. */
static void what_is_dirty_is_flushed_before_read_is_given_back_unasked(void **state)
{
	struct kr_lease_state holder;
	uint8_t kinds;

	(void)state;
	kr_lease_state_init(&holder);
	kr_lease_state_gained(&holder, KR_LEASE_ALL);
	kr_lease_state_dirtied(&holder, false);
	kr_lease_state_release(&holder, KR_LEASE_READ);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_FLUSH);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
	kr_lease_state_flushed(&holder, true, true);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_RETURN);
	assert_int_equal(kinds, KR_LEASE_READ);
}

static void pages_that_a_mapping_wrote_are_flushed_before_read_goes(void **state)
{
	struct kr_lease_state holder;
	uint8_t kinds;

	(void)state;
	kr_lease_state_init(&holder);
	kr_lease_state_gained(&holder, KR_LEASE_READ);
	assert_true(kr_lease_state_enter(&holder, KR_LEASE_READ));
	kr_lease_state_cached(&holder);
	kr_lease_state_leave(&holder, KR_LEASE_READ, 0);
	kr_lease_state_recalled(&holder, KR_LEASE_READ);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP);
	kr_lease_state_dirtied(&holder, true);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
	kr_lease_state_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_FLUSH);
	kr_lease_state_flushed(&holder, true, true);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
}

/* A holder with both kinds, and a page into which programs may store. */
static struct kr_lease_state with_stores(void)
{
	struct kr_lease_state holder;

	kr_lease_state_init(&holder);
	kr_lease_state_gained(&holder, KR_LEASE_ALL);
	assert_true(kr_lease_state_enter(&holder, KR_LEASE_ALL));
	kr_lease_state_stored(&holder);
	kr_lease_state_leave(&holder, KR_LEASE_ALL, 0);
	return holder;
}

static void pages_that_may_be_stored_into_go_before_either_kind_and_what_was_stored_is_flushed(void **state)
{
	static const uint8_t recalled[] = {KR_LEASE_READ, KR_LEASE_WRITE, KR_LEASE_ALL};
	uint8_t kinds;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct kr_lease_state holder = with_stores();

		kr_lease_state_dirtied(&holder, false);
		kr_lease_state_recalled(&holder, recalled[i]);
		assert_false(kr_lease_state_enter(
			&holder, KR_LEASE_READ)); /* or the pages would stay as long as somebody reads */
		assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP);
		assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
		kr_lease_state_dirtied(&holder, true);
		kr_lease_state_dropped(&holder);
		assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_FLUSH);
		kr_lease_state_flushed(&holder, true, true);
		assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
		assert_int_equal(kinds, recalled[i]);
		assert_true(kr_lease_state_has(&holder, KR_LEASE_ALL & (uint8_t)~recalled[i]));
	}
}

static void pages_that_came_a_moment_ago_stay_a_moment(void **state)
{
	struct kr_lease_state holder = with_stores();
	uint8_t kinds;

	(void)state;
	kr_lease_state_linger(&holder, true);
	kr_lease_state_recalled(&holder, KR_LEASE_WRITE);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
	assert_true(kr_lease_state_must_drop(&holder));
	kr_lease_state_linger(&holder, false);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP);
}

static void pages_that_nobody_stores_into_any_more_stay_when_write_goes(void **state)
{
	struct kr_lease_state holder = with_stores();
	uint8_t kinds;

	(void)state;
	kr_lease_state_sealed(&holder);
	kr_lease_state_recalled(&holder, KR_LEASE_WRITE);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
	assert_true(holder.pages);
	kr_lease_state_recalled(&holder, KR_LEASE_READ);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP);
}

static void pages_that_may_be_stored_into_are_suspect_when_write_has_not_come_back(void **state)
{
	struct kr_lease_state holder = with_stores();
	uint8_t kinds;

	(void)state;
	assert_int_equal(kr_lease_state_lost(&holder), KR_LEASE_ALL);
	kr_lease_state_reclaimed(&holder, KR_LEASE_READ, true);
	assert_false(kr_lease_state_enter(&holder, KR_LEASE_READ));
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP);
	/* Whoever waits with a page locked that the dropping waits for asks for both, and READ is recalled before they
	 * come. */
	kr_lease_state_recalled(&holder, KR_LEASE_READ);
	assert_true(kr_lease_state_enter_through(&holder, KR_LEASE_ALL));
	kr_lease_state_leave(&holder, KR_LEASE_ALL, holder.epoch);
	kr_lease_state_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP);
	kr_lease_state_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
}

static void a_read_let_through_makes_the_dropping_start_again(void **state)
{
	struct kr_lease_state holder;
	uint8_t kinds;

	(void)state;
	kr_lease_state_init(&holder);
	kr_lease_state_gained(&holder, KR_LEASE_READ);
	kr_lease_state_cached(&holder);
	kr_lease_state_recalled(&holder, KR_LEASE_READ);
	assert_false(kr_lease_state_enter_through(&holder, KR_LEASE_READ));
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP);
	assert_true(kr_lease_state_enter_through(&holder, KR_LEASE_READ));
	kr_lease_state_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_NOTHING);
	kr_lease_state_leave(&holder, KR_LEASE_READ, 0);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP);
	kr_lease_state_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
}

static void a_write_let_through_goes_to_the_server_while_read_is_dropped(void **state)
{
	struct kr_lease_state holder;
	uint8_t kinds;

	(void)state;
	kr_lease_state_init(&holder);
	assert_false(kr_lease_state_write_through(&holder));
	kr_lease_state_gained(&holder, KR_LEASE_READ);
	kr_lease_state_cached(&holder);
	assert_false(kr_lease_state_write_through(&holder)); /* it asks for WRITE */
	kr_lease_state_recalled(&holder, KR_LEASE_READ);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP);
	assert_true(kr_lease_state_write_through(&holder));
	kr_lease_state_dirtied(&holder, true);
	assert_true(kr_lease_state_may_flush(&holder)); /* its answer waits for that, and the dropping for its answer */
	kr_lease_state_flushed(&holder, true, true);
	kr_lease_state_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_DROP); /* what it had filled of other pages */
	kr_lease_state_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ANSWER);
	assert_false(kr_lease_state_write_through(&holder));
}

static void a_grant_from_before_the_connection_broke_does_not_count(void **state)
{
	struct kr_lease_state holder;
	uint8_t kinds;

	(void)state;
	kr_lease_state_init(&holder);
	kr_lease_state_want(&holder, KR_LEASE_READ);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ASK);
	kr_lease_state_granted(&holder, false);
	assert_int_equal(holder.held, 0);
	assert_int_equal(next(&holder, &kinds), KR_LEASE_STATE_ASK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_recall_of_what_is_not_held_is_answered_at_once),
		cmocka_unit_test(a_recall_of_write_waits_for_writers_and_the_flush),
		cmocka_unit_test(a_refused_flush_does_not_hold_a_recall_up),
		cmocka_unit_test(nothing_is_given_up_while_bytes_are_on_their_way),
		cmocka_unit_test(what_is_dirty_is_flushed_before_read_is_given_back_unasked),
		cmocka_unit_test(pages_that_a_mapping_wrote_are_flushed_before_read_goes),
		cmocka_unit_test(pages_that_may_be_stored_into_go_before_either_kind_and_what_was_stored_is_flushed),
		cmocka_unit_test(pages_that_came_a_moment_ago_stay_a_moment),
		cmocka_unit_test(pages_that_nobody_stores_into_any_more_stay_when_write_goes),
		cmocka_unit_test(pages_that_may_be_stored_into_are_suspect_when_write_has_not_come_back),
		cmocka_unit_test(a_read_let_through_makes_the_dropping_start_again),
		cmocka_unit_test(a_write_let_through_goes_to_the_server_while_read_is_dropped),
		cmocka_unit_test(a_grant_from_before_the_connection_broke_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
