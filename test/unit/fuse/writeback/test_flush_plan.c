/* When a file's bytes are sent: the decisions of the flush scheduler. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "common/base/util.h"
#include "fuse/writeback/flush_plan.h"

static const uint64_t second = KR_NS_PER_S;

static struct kr_flush_facts facts_at(uint64_t seconds)
{
	return (struct kr_flush_facts){.now_ns = seconds * second,
		.dirty = true,
		.dirty_since_ns = 100 * second,
		.age_ns = 5 * second,
		.flushed_seq = 10};
}

static void nobody_asks_so_bytes_go_when_they_are_old(void **state)
{
	struct kr_flush_plan plan = {0};
	struct kr_flush_facts facts = facts_at(104);

	(void)state;
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_LATER);
	facts = facts_at(105);
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_SEND);
	facts.dirty = false;
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_NOTHING);
}

static void the_backlog_of_a_burst_goes_when_it_is_over(void **state)
{
	struct kr_flush_plan plan = {0};
	struct kr_flush_facts facts = facts_at(101);

	(void)state;
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_LATER);
	facts.backlog = true;
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_SEND);
	plan.retry_ns = 102 * second;
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_LATER);
}

static void who_asks_meanwhile_is_in_the_next_flush(void **state)
{
	struct kr_flush_plan plan = {0};
	struct kr_flush_facts facts = facts_at(101);

	(void)state;
	kr_flush_plan_want(&plan, 20, false);
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_SEND);
	kr_flush_plan_sent(&plan);
	kr_flush_plan_want(&plan, 25, true);
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_NOTHING);
	assert_false(kr_flush_plan_answered(&plan, 0, facts.now_ns));
	facts.flushed_seq = 20;
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_SEND);
}

static void a_refusal_is_told_and_retried_later_or_when_somebody_waits(void **state)
{
	struct kr_flush_plan plan = {0};
	struct kr_flush_facts facts = facts_at(101);

	(void)state;
	kr_flush_plan_want(&plan, 20, true);
	kr_flush_plan_sent(&plan);
	assert_true(kr_flush_plan_answered(&plan, -ENOSPC, facts.now_ns));
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_LATER);
	kr_flush_plan_want(&plan, 20, false);
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_LATER);
	facts = facts_at(106);
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_SEND);
	facts = facts_at(102);
	kr_flush_plan_want(&plan, 20, true);
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_SEND);
	kr_flush_plan_sent(&plan);
	assert_false(kr_flush_plan_answered(&plan, 0, facts.now_ns));
	assert_int_equal(plan.refused, 0);
}

static void a_lost_session_is_no_refusal(void **state)
{
	struct kr_flush_plan plan = {0};
	struct kr_flush_facts facts = facts_at(101);

	(void)state;
	kr_flush_plan_want(&plan, 20, true);
	kr_flush_plan_sent(&plan);
	assert_false(kr_flush_plan_answered(&plan, -ENOTCONN, facts.now_ns));
	assert_true(plan.passing);
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_LATER);
	facts = facts_at(102);
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_SEND);
	facts.blocked = true;
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_NOTHING);
	kr_flush_plan_sent(&plan);
	assert_false(kr_flush_plan_answered(&plan, 0, facts.now_ns));
	assert_false(plan.passing);
}

static void a_file_that_is_gone_is_never_tried_again(void **state)
{
	struct kr_flush_plan plan = {0};
	struct kr_flush_facts facts = facts_at(500);

	(void)state;
	kr_flush_plan_want(&plan, 20, true);
	kr_flush_plan_sent(&plan);
	assert_true(kr_flush_plan_answered(&plan, -ESTALE, facts.now_ns));
	kr_flush_plan_want(&plan, 30, true);
	assert_int_equal(kr_flush_plan_next(&plan, &facts), KR_FLUSH_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_asks_so_bytes_go_when_they_are_old),
		cmocka_unit_test(the_backlog_of_a_burst_goes_when_it_is_over),
		cmocka_unit_test(who_asks_meanwhile_is_in_the_next_flush),
		cmocka_unit_test(a_refusal_is_told_and_retried_later_or_when_somebody_waits),
		cmocka_unit_test(a_lost_session_is_no_refusal),
		cmocka_unit_test(a_file_that_is_gone_is_never_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
