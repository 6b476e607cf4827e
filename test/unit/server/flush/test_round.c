/* The round machine: what it does step by step (in any order of events: test_round_random.c). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/flush/round.h"

static uint64_t last_number;

static uint64_t next_number(void *context)
{
	(void)context;
	return ++last_number;
}

static char token_a, token_b, token_c;

static void setup(struct kr_rounds *rounds)
{
	last_number = 0;
	kr_rounds_init(rounds, next_number, NULL);
}

static void ask(struct kr_rounds *rounds, uint32_t node, const char *name, bool inlined, void *token)
{
	struct kr_round_ask asked = {.node = node, .order = name, .ring = "", .inlined = inlined, .token = token};

	assert_int_equal(kr_rounds_ask(rounds, &asked), 0);
}

static struct kr_round_action expect(struct kr_rounds *rounds, enum kr_round_action_kind kind, uint32_t node)
{
	struct kr_round_action action;

	assert_true(kr_rounds_action(rounds, &action));
	assert_int_equal(action.kind, kind);
	assert_int_equal(action.node, node);
	return action;
}

static void expect_reply(struct kr_rounds *rounds, void *token, int err, uint64_t round, bool alone)
{
	struct kr_round_action action;

	assert_true(kr_rounds_action(rounds, &action));
	assert_int_equal(action.kind, KR_ROUND_REPLY);
	assert_ptr_equal(action.token, token);
	assert_int_equal(action.err, err);
	if (round)
		assert_int_equal(action.round, round);
	assert_int_equal(action.alone, alone);
}

static void expect_nothing(struct kr_rounds *rounds)
{
	struct kr_round_action action;

	assert_false(kr_rounds_action(rounds, &action));
}

static void inline_flushes_are_rounds_of_their_own_in_the_order_asked(void **state)
{
	struct kr_rounds rounds;

	(void)state;
	setup(&rounds);
	ask(&rounds, 2, "n2", true, &token_a);
	ask(&rounds, 1, "n1", true, &token_b);
	assert_ptr_equal(expect(&rounds, KR_ROUND_WRITE, 2).token, &token_a);
	expect_nothing(&rounds);
	kr_rounds_finished(&rounds, 1, 0);
	expect_reply(&rounds, &token_a, 0, 1, true);
	expect(&rounds, KR_ROUND_WRITE, 1);
	kr_rounds_finished(&rounds, 2, -ENOSPC);
	expect_reply(&rounds, &token_b, -ENOSPC, 2, true);
	assert_true(kr_rounds_idle(&rounds));
	kr_rounds_fini(&rounds);
}

/* Four chained flushes of two rings wait; a ring's make a chain, whoever asked between them. */
static void a_chain_joins_nodes_of_one_ring(void **state)
{
	static const char *const rings[] = {"red", "blue", "red", "blue"};
	struct kr_rounds rounds;

	(void)state;
	setup(&rounds);
	kr_rounds_hold(&rounds, true);
	for (uint32_t i = 0; i < 4; i++) {
		struct kr_round_ask asked = {.node = 1 + i, .order = "n", .ring = rings[i]};

		assert_int_equal(kr_rounds_ask(&rounds, &asked), 0);
	}
	kr_rounds_hold(&rounds, false);
	for (uint32_t first = 1; first <= 2; first++) {
		uint64_t round = first;

		expect(&rounds, KR_ROUND_BEGIN, first + 2);
		assert_int_equal(expect(&rounds, KR_ROUND_SEND, first + 2).downstream, 0);
		assert_int_equal(expect(&rounds, KR_ROUND_SEND, first).downstream, first + 2);
		expect_nothing(&rounds);
		kr_rounds_accepted(&rounds, round, first, 0);
		kr_rounds_accepted(&rounds, round, first + 2, 0);
		kr_rounds_received(&rounds, round);
		expect(&rounds, KR_ROUND_FINISH, 0);
		kr_rounds_finished(&rounds, round, 0);
		expect_reply(&rounds, NULL, 0, round, false);
		expect_reply(&rounds, NULL, 0, round, false);
	}
	assert_true(kr_rounds_idle(&rounds));
	kr_rounds_fini(&rounds);
}

/* Three chained flushes behind an inline one; returns with ROUND accepted by all but the first participant. */
static void run_into_chain(struct kr_rounds *rounds)
{
	struct kr_round_action action;

	setup(rounds);
	ask(rounds, 9, "n9", true, NULL);
	expect(rounds, KR_ROUND_WRITE, 9);
	ask(rounds, 1, "n10", false, &token_c);
	ask(rounds, 2, "n2", false, &token_b);
	ask(rounds, 3, "n1", false, &token_a);
	kr_rounds_finished(rounds, 1, 0);
	expect_reply(rounds, NULL, 0, 1, true);
	expect(rounds, KR_ROUND_BEGIN, 1);
	action = expect(rounds, KR_ROUND_SEND, 1);
	assert_int_equal(action.downstream, 0);
	assert_true(action.has_upstream);
	action = expect(rounds, KR_ROUND_SEND, 2);
	assert_int_equal(action.downstream, 1);
	assert_true(action.has_upstream);
	assert_ptr_equal(action.token, &token_b);
	action = expect(rounds, KR_ROUND_SEND, 3);
	assert_int_equal(action.downstream, 2);
	assert_false(action.has_upstream);
	kr_rounds_accepted(rounds, 2, 1, 0);
	kr_rounds_accepted(rounds, 2, 2, 0);
	expect_nothing(rounds);
}

static void chained_flushes_that_wait_form_one_round_in_ring_order(void **state)
{
	struct kr_rounds rounds;

	(void)state;
	run_into_chain(&rounds);
	kr_rounds_received(&rounds, 2); /* the stream can overtake the first node's answer */
	expect_nothing(&rounds);
	kr_rounds_accepted(&rounds, 2, 3, 0);
	expect(&rounds, KR_ROUND_FINISH, 0);
	ask(&rounds, 4, "n4", false, NULL);
	expect_nothing(&rounds);
	kr_rounds_finished(&rounds, 2, 0);
	expect_reply(&rounds, &token_a, 0, 2, false);
	expect_reply(&rounds, &token_b, 0, 2, false);
	expect_reply(&rounds, &token_c, 0, 2, false);
	expect(&rounds, KR_ROUND_BEGIN, 4);
	expect(&rounds, KR_ROUND_SEND, 4);
	kr_rounds_fini(&rounds);
}

static void lost_participant_aborts_the_round_and_the_rest_run_again(void **state)
{
	struct kr_rounds rounds;
	struct kr_round_action action;

	(void)state;
	run_into_chain(&rounds);
	kr_rounds_accepted(&rounds, 2, 3, 0);
	kr_rounds_lost(&rounds, 2);
	expect(&rounds, KR_ROUND_ABORT, 3);
	expect(&rounds, KR_ROUND_ABORT, 1);
	expect(&rounds, KR_ROUND_DISCARD, 0);
	expect_reply(&rounds, &token_b, -ENOTCONN, 2, false);
	kr_rounds_received(&rounds, 2); /* too late */
	expect_nothing(&rounds);
	kr_rounds_drained(&rounds, 2);
	expect(&rounds, KR_ROUND_BEGIN, 1);
	expect(&rounds, KR_ROUND_SEND, 1);
	action = expect(&rounds, KR_ROUND_SEND, 3);
	assert_int_equal(action.downstream, 1);
	kr_rounds_accepted(&rounds, 3, 1, 0);
	kr_rounds_accepted(&rounds, 3, 3, 0);
	kr_rounds_received(&rounds, 3);
	expect(&rounds, KR_ROUND_FINISH, 0);
	kr_rounds_finished(&rounds, 3, 0);
	expect_reply(&rounds, &token_a, 0, 3, false);
	expect_reply(&rounds, &token_c, 0, 3, false);
	kr_rounds_fini(&rounds);
}

static void write_error_reaches_every_participant(void **state)
{
	struct kr_rounds rounds;

	(void)state;
	run_into_chain(&rounds);
	kr_rounds_failed(&rounds, 2, -EDQUOT);
	expect(&rounds, KR_ROUND_ABORT, 3);
	expect(&rounds, KR_ROUND_ABORT, 2);
	expect(&rounds, KR_ROUND_ABORT, 1);
	expect(&rounds, KR_ROUND_DISCARD, 0);
	expect_reply(&rounds, &token_a, -EDQUOT, 2, false);
	expect_reply(&rounds, &token_b, -EDQUOT, 2, false);
	expect_reply(&rounds, &token_c, -EDQUOT, 2, false);
	kr_rounds_drained(&rounds, 2);
	expect_nothing(&rounds);
	assert_true(kr_rounds_idle(&rounds));
	kr_rounds_fini(&rounds);
}

static void refusal_fails_the_one_that_refused_only(void **state)
{
	struct kr_rounds rounds;

	(void)state;
	run_into_chain(&rounds);
	kr_rounds_accepted(&rounds, 2, 3, -EIO);
	expect(&rounds, KR_ROUND_ABORT, 2);
	expect(&rounds, KR_ROUND_ABORT, 1);
	expect(&rounds, KR_ROUND_DISCARD, 0);
	expect_reply(&rounds, &token_a, -EIO, 2, false);
	kr_rounds_drained(&rounds, 2);
	expect(&rounds, KR_ROUND_BEGIN, 1);
	kr_rounds_fini(&rounds);
}

/* Plays a chain in which every node accepts and then the stream breaks; returns how many took part. */
static unsigned break_chain(struct kr_rounds *rounds, unsigned *ret_errors)
{
	struct kr_round_action action;
	unsigned participants = 0;
	uint64_t round = 0;

	*ret_errors = 0;
	while (kr_rounds_action(rounds, &action)) {
		if (action.kind == KR_ROUND_SEND) {
			participants++;
			round = action.round;
			kr_rounds_accepted(rounds, round, action.node, 0);
		}
	}
	kr_rounds_broken(rounds, round);
	while (kr_rounds_action(rounds, &action)) {
		if (action.kind == KR_ROUND_REPLY) {
			assert_int_equal(action.err, -EIO);
			++*ret_errors;
		}
	}
	kr_rounds_drained(rounds, round);
	return participants;
}

static void broken_chains_fall_back_to_single_rounds_and_end_with_eio(void **state)
{
	struct kr_rounds rounds;
	unsigned errors, total = 0, rounds_run = 0;

	(void)state;
	setup(&rounds);
	kr_rounds_hold(&rounds, true);
	ask(&rounds, 1, "a", false, &token_a);
	ask(&rounds, 2, "b", false, &token_b);
	kr_rounds_hold(&rounds, false);
	for (int i = 0; i < KR_ROUND_CHAIN_ATTEMPTS; i++) {
		assert_int_equal(break_chain(&rounds, &errors), 2);
		assert_int_equal(errors, 0);
	}
	while (!kr_rounds_idle(&rounds)) {
		assert_int_equal(break_chain(&rounds, &errors), 1);
		total += errors;
		assert_true(++rounds_run < 20);
	}
	assert_int_equal(total, 2);
	kr_rounds_fini(&rounds);
}

static void too_many_asks_of_a_node_are_refused(void **state)
{
	struct kr_rounds rounds;
	struct kr_round_ask asked = {.node = 1, .order = "a", .ring = "", .inlined = true};

	(void)state;
	setup(&rounds);
	for (int i = 0; i < KR_ROUND_ASKS_PER_NODE; i++)
		assert_int_equal(kr_rounds_ask(&rounds, &asked), 0);
	assert_int_equal(kr_rounds_ask(&rounds, &asked), -EAGAIN);
	kr_rounds_fini(&rounds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inline_flushes_are_rounds_of_their_own_in_the_order_asked),
		cmocka_unit_test(a_chain_joins_nodes_of_one_ring),
		cmocka_unit_test(chained_flushes_that_wait_form_one_round_in_ring_order),
		cmocka_unit_test(lost_participant_aborts_the_round_and_the_rest_run_again),
		cmocka_unit_test(write_error_reaches_every_participant),
		cmocka_unit_test(refusal_fails_the_one_that_refused_only),
		cmocka_unit_test(broken_chains_fall_back_to_single_rounds_and_end_with_eio),
		cmocka_unit_test(too_many_asks_of_a_node_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
