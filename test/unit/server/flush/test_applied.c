/* The memory of applied journal positions: what it answers, and that it is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/flush/applied.h"

static struct kr_fid fid_of(uint32_t number)
{
	struct kr_fid fid = {.length = 8};

	memcpy(fid.bytes, &number, sizeof number);
	return fid;
}

static const uint8_t node_a[16] = "node a", node_b[16] = "node b";

enum { LAST = 100 };

static void lose(struct kr_applied *applied, const struct kr_fid *file, const uint8_t *node, uint64_t good, int err)
{
	struct kr_applied_loss loss = {.good = good, .last = LAST, .err = err};

	kr_applied_note_unstable(applied, file, node, &loss);
}

static void tell(struct kr_applied *applied, const struct kr_fid *file, const uint8_t *node, uint64_t good)
{
	struct kr_applied_loss loss = {.good = good, .last = LAST};

	kr_applied_told(applied, file, node, &loss, false);
}

static void remembers_the_latest_per_file_and_node(void **state)
{
	struct kr_applied applied;
	struct kr_fid one = fid_of(1), two = fid_of(2);

	(void)state;
	kr_applied_init(&applied);
	kr_applied_note(&applied, &one, node_a, 10, 100);
	kr_applied_note(&applied, &one, node_b, 20, 101);
	kr_applied_note(&applied, &one, node_a, 12, 102);
	assert_int_equal(kr_applied_find(&applied, &one, node_a)->seq, 12);
	assert_int_equal(kr_applied_find(&applied, &one, node_a)->round, 102);
	assert_int_equal(kr_applied_find(&applied, &one, node_b)->seq, 20);
	assert_null(kr_applied_find(&applied, &two, node_a));
	kr_applied_fini(&applied);
}

static void forgets_the_least_recently_used_when_full(void **state)
{
	struct kr_applied applied;
	struct kr_fid fid;

	(void)state;
	kr_applied_init(&applied);
	for (uint32_t i = 0; i < KR_APPLIED_MAX; i++) {
		fid = fid_of(i);
		kr_applied_note(&applied, &fid, node_a, i + 1, i + 1);
	}
	fid = fid_of(0);
	assert_non_null(kr_applied_find(&applied, &fid, node_a));
	fid = fid_of(KR_APPLIED_MAX);
	kr_applied_note(&applied, &fid, node_a, 1, 1);
	assert_int_equal(applied.table.count, KR_APPLIED_MAX);
	fid = fid_of(1);
	assert_null(kr_applied_find(&applied, &fid, node_a));
	fid = fid_of(0);
	assert_non_null(kr_applied_find(&applied, &fid, node_a));
	kr_applied_fini(&applied);
}

static void forgets_a_loss_that_was_not_told_after_all_else(void **state)
{
	struct kr_applied applied;
	struct kr_fid first = fid_of(0), fid;

	(void)state;
	kr_applied_init(&applied);
	lose(&applied, &first, node_a, 50, -5);
	for (uint32_t i = 1; i <= KR_APPLIED_MAX; i++) {
		fid = fid_of(i);
		kr_applied_note(&applied, &fid, node_a, i, i);
	}
	assert_int_equal(applied.table.count, KR_APPLIED_MAX);
	assert_non_null(kr_applied_find(&applied, &first, node_a));
	for (uint32_t i = 1; i <= KR_APPLIED_MAX; i++) {
		fid = fid_of(i);
		lose(&applied, &fid, node_a, 50, -5); /* nothing else is left: it ends */
	}
	assert_int_equal(applied.table.count, KR_APPLIED_MAX);
	kr_applied_fini(&applied);
}

static void knows_up_to_where_it_has_forgotten(void **state)
{
	struct kr_applied applied;
	struct kr_fid first = fid_of(0), fid;

	(void)state;
	kr_applied_init(&applied);
	kr_applied_note(&applied, &first, node_b, 7, 1);
	kr_applied_note(&applied, &first, node_a, 1000, 2);
	assert_int_equal(kr_applied_forgotten(&applied, &first, node_a), 0);
	for (uint32_t i = 1; i < KR_APPLIED_MAX; i++) { /* the two first go */
		fid = fid_of(i);
		kr_applied_note(&applied, &fid, node_b, 7 + i, i);
	}
	fid = fid_of(KR_APPLIED_MAX);
	kr_applied_note(&applied, &fid, node_b, 7 + KR_APPLIED_MAX, KR_APPLIED_MAX);
	assert_null(kr_applied_find(&applied, &first, node_a));
	assert_int_equal(kr_applied_forgotten(&applied, &first, node_a), 1000);
	assert_int_equal(kr_applied_forgotten(&applied, &first, node_b), 7);
	assert_int_equal(kr_applied_forgotten(&applied, &fid, node_b), 0); /* that one is known */
	fid = fid_of(KR_APPLIED_MAX + 1);
	assert_int_equal(kr_applied_forgotten(&applied, &fid, (const uint8_t *)"nobody's number."), 0);
	kr_applied_note(&applied, &first, node_a, 2000, KR_APPLIED_MAX + 1);
	assert_int_equal(kr_applied_forgotten(&applied, &first, node_a), 0);
	lose(&applied, &first, node_a, 50, -5);
	assert_true(kr_applied_forgotten(&applied, &first, node_a) == UINT64_MAX);
	kr_applied_fini(&applied);
}

static void keeps_the_earliest_loss_that_was_not_told(void **state)
{
	struct kr_applied applied;
	struct kr_fid fid = fid_of(1);

	(void)state;
	kr_applied_init(&applied);
	lose(&applied, &fid, node_a, 50, -5);
	lose(&applied, &fid, node_a, 70, -28);
	assert_int_equal(kr_applied_find(&applied, &fid, node_a)->good, 50);
	assert_int_equal(kr_applied_find(&applied, &fid, node_a)->unstable_err, -28);
	kr_applied_fini(&applied);
}

static void nothing_lost_counts_as_applied(void **state)
{
	struct kr_applied applied;
	struct kr_fid fid = fid_of(1);

	(void)state;
	kr_applied_init(&applied);
	kr_applied_note(&applied, &fid, node_a, 10, 100);
	lose(&applied, &fid, node_a, 90, -5);
	assert_int_equal(kr_applied_find(&applied, &fid, node_a)->seq, 0);
	lose(&applied, &fid, node_a, 80, -5);
	tell(&applied, &fid, node_a, 90); /* of the later loss only */
	assert_int_equal(kr_applied_find(&applied, &fid, node_a)->unstable_err, -5);
	tell(&applied, &fid, node_a, 80);
	assert_int_equal(kr_applied_find(&applied, &fid, node_a)->unstable_err, 0);
	kr_applied_note(&applied, &fid, node_a, 20, 101); /* sent before the node knew */
	assert_int_equal(kr_applied_find(&applied, &fid, node_a)->seq, 0);
	kr_applied_fini(&applied);
}

static void who_was_told_of_a_loss_owes_until_it_says_that_it_has_nothing(void **state)
{
	struct kr_applied applied;
	struct kr_fid one = fid_of(1);

	(void)state;
	kr_applied_init(&applied);
	kr_applied_note(&applied, &one, node_a, 10, 100);
	kr_applied_note(&applied, &one, node_b, 10, 100);
	assert_false(kr_applied_owes(&applied, &one, node_a));
	lose(&applied, &one, node_a, 99, -5);
	lose(&applied, &one, node_a, 98, -5);
	assert_int_equal(applied.owing, 1);
	assert_true(kr_applied_owes(&applied, &one, node_a));
	assert_false(kr_applied_owes(&applied, &one, node_b));
	tell(&applied, &one, node_a, 98);
	kr_applied_note(&applied, &one, node_a, 11, 101);
	assert_true(kr_applied_owes(&applied, &one, node_a));
	kr_applied_clean(&applied, &one, node_a);
	kr_applied_clean(&applied, &one, node_a);
	assert_false(kr_applied_owes(&applied, &one, node_a));
	assert_int_equal(applied.owing, 0);
	for (uint32_t i = 0; i < KR_APPLIED_MAX + 1; i++) {
		struct kr_fid fid = fid_of(i);

		lose(&applied, &fid, node_a, 1, -5);
	}
	assert_int_equal(applied.owing, KR_APPLIED_MAX);
	kr_applied_fini(&applied);
}

/* The first that comes after it may have been on its way before; one that comes twice is one. */
static void who_was_told_of_a_loss_owes_until_it_has_sent_all_it_has(void **state)
{
	struct kr_applied_flush before = {.incarnation = 1, .number = 4}, first = {.incarnation = 1, .number = 5},
				next = {.incarnation = 1, .number = 7}, anew = {.incarnation = 2, .number = 9};
	struct kr_applied applied;
	struct kr_fid one = fid_of(1);

	(void)state;
	memcpy(before.node_id, node_a, 16);
	memcpy(first.node_id, node_a, 16);
	memcpy(next.node_id, node_a, 16);
	memcpy(anew.node_id, node_a, 16);
	kr_applied_init(&applied);
	lose(&applied, &one, node_a, 99, -5);
	kr_applied_flush_came(&applied, &one, &before); /* it does not know */
	tell(&applied, &one, node_a, 99);
	kr_applied_flush_came(&applied, &one, &first);
	kr_applied_flush_done(&applied, &one, &before);
	kr_applied_flush_done(&applied, &one, &first);
	kr_applied_flush_came(&applied, &one, &first);
	kr_applied_flush_done(&applied, &one, &first);
	assert_true(kr_applied_owes(&applied, &one, node_a));
	lose(&applied, &one, node_a, 98, -5); /* something else is lost */
	kr_applied_flush_came(&applied, &one, &next);
	tell(&applied, &one, node_a, 98);
	kr_applied_flush_done(&applied, &one, &next);
	kr_applied_flush_came(&applied, &one, &next);
	kr_applied_flush_came(&applied, &one, &anew); /* of its next daemon */
	kr_applied_flush_done(&applied, &one, &anew);
	assert_true(kr_applied_owes(&applied, &one, node_a));
	anew.number++;
	kr_applied_flush_came(&applied, &one, &anew);
	kr_applied_flush_done(&applied, &one, &anew);
	assert_false(kr_applied_owes(&applied, &one, node_a));
	assert_int_equal(applied.owing, 0);
	kr_applied_fini(&applied);
}

/* The second failed sync has taken what came after the first. */
static void who_was_told_of_one_loss_is_told_of_the_next(void **state)
{
	struct kr_applied_loss first = {.good = 50, .last = 60, .err = -5},
			       second = {.good = 50, .last = 70, .err = -5};
	struct kr_applied applied;
	struct kr_fid fid = fid_of(1);

	(void)state;
	kr_applied_init(&applied);
	kr_applied_note_unstable(&applied, &fid, node_a, &first);
	kr_applied_note_unstable(&applied, &fid, node_a, &second);
	kr_applied_told(&applied, &fid, node_a, &first, false);
	assert_int_equal(kr_applied_find(&applied, &fid, node_a)->unstable_err, -5);
	kr_applied_told(&applied, &fid, node_a, &second, false);
	assert_int_equal(kr_applied_find(&applied, &fid, node_a)->unstable_err, 0);
	kr_applied_fini(&applied);
}

static void who_has_sent_all_again_as_replays_owes_nothing_when_they_are_in(void **state)
{
	struct kr_applied_loss loss = {.good = 50, .last = 60, .err = -5}, next = {.good = 60, .last = 70, .err = -5};
	struct kr_applied applied;
	struct kr_fid fid = fid_of(1);

	(void)state;
	kr_applied_init(&applied);
	kr_applied_resent(&applied, &fid, node_a, 0, false); /* nothing was lost */
	kr_applied_note_unstable(&applied, &fid, node_a, &loss);
	kr_applied_resent(&applied, &fid, node_a, 0, false); /* one of before */
	kr_applied_told(&applied, &fid, node_a, &loss, true);
	kr_applied_resent(&applied, &fid, node_a, 0, true);
	assert_true(kr_applied_owes(&applied, &fid, node_a));
	kr_applied_resent(&applied, &fid, node_a, 0, false);
	assert_false(kr_applied_owes(&applied, &fid, node_a));
	kr_applied_note_unstable(&applied, &fid, node_a, &next);
	kr_applied_told(&applied, &fid, node_a, &next, true);
	kr_applied_resent(&applied, &fid, node_a, -5, true); /* it will be sent otherwise */
	kr_applied_resent(&applied, &fid, node_a, 0, false);
	assert_true(kr_applied_owes(&applied, &fid, node_a));
	kr_applied_clean(&applied, &fid, node_a);
	kr_applied_note_unstable(&applied, &fid, node_a, &loss);
	kr_applied_told(&applied, &fid, node_a, &loss, true);
	kr_applied_note_unstable(&applied, &fid, node_a, &next); /* some of what was sent again */
	kr_applied_resent(&applied, &fid, node_a, 0, false);
	assert_true(kr_applied_owes(&applied, &fid, node_a));
	kr_applied_fini(&applied);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(remembers_the_latest_per_file_and_node),
		cmocka_unit_test(forgets_the_least_recently_used_when_full),
		cmocka_unit_test(forgets_a_loss_that_was_not_told_after_all_else),
		cmocka_unit_test(knows_up_to_where_it_has_forgotten),
		cmocka_unit_test(keeps_the_earliest_loss_that_was_not_told),
		cmocka_unit_test(nothing_lost_counts_as_applied),
		cmocka_unit_test(who_was_told_of_a_loss_owes_until_it_says_that_it_has_nothing),
		cmocka_unit_test(who_was_told_of_a_loss_owes_until_it_has_sent_all_it_has),
		cmocka_unit_test(who_was_told_of_one_loss_is_told_of_the_next),
		cmocka_unit_test(who_has_sent_all_again_as_replays_owes_nothing_when_they_are_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
