/* The round machine in any order of events: rounds come one after another, and every ask is answered once. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/ring_order.h"
#include "server/flush/round.h"

static uint64_t next_number(void *last)
{
	return ++*(uint64_t *)last;
}

enum { NODES = 6, TOKENS = 400, STEPS = 1500 };

struct world {
	struct kr_rounds rounds;
	uint64_t last_number;
	uint64_t seed;
	unsigned replies[TOKENS];
	bool inlined[TOKENS];
	uint32_t owner[TOKENS];
	unsigned asked;
	/* the running round as seen from outside */
	uint64_t round, write_round, finish_round, drain_round;
	uint32_t sent[NODES + 1], sent_count, accepted_count;
	bool chain;
};

static char names[NODES + 1][8];

static unsigned pick(struct world *w, unsigned below)
{
	w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(w->seed >> 33) % below;
}

static void note_action(struct world *w, const struct kr_round_action *action)
{
	size_t token = (size_t)(uintptr_t)action->token;

	switch (action->kind) {
	case KR_ROUND_WRITE:
		assert_true(!w->chain && !w->write_round && !w->finish_round && !w->drain_round);
		assert_true(action->round > w->round && w->inlined[token] && !w->replies[token]);
		w->round = w->write_round = action->round;
		break;
	case KR_ROUND_BEGIN:
		assert_true(!w->chain && !w->write_round && !w->finish_round && !w->drain_round);
		assert_true(action->round > w->round);
		w->round = action->round;
		w->chain = true;
		w->sent_count = w->accepted_count = 0;
		break;
	case KR_ROUND_SEND:
		assert_true(w->chain && action->round == w->round && w->accepted_count == 0);
		if (w->sent_count == 0) {
			assert_int_equal(action->downstream, 0);
		} else {
			assert_int_equal(action->downstream, w->sent[w->sent_count - 1]);
			assert_true(kr_ring_order(names[action->node], action->node, names[action->downstream],
					    action->downstream) < 0);
		}
		w->sent[w->sent_count++] = action->node;
		break;
	case KR_ROUND_FINISH:
		assert_true(w->chain && w->sent_count == w->accepted_count && action->round == w->round);
		w->chain = false;
		w->finish_round = action->round;
		break;
	case KR_ROUND_ABORT:
		assert_true(w->chain);
		break;
	case KR_ROUND_DISCARD:
		assert_true(w->chain && action->round == w->round);
		w->chain = false;
		w->drain_round = action->round;
		break;
	case KR_ROUND_REPLY:
		assert_in_range(token, 0, w->asked - 1);
		assert_int_equal(w->owner[token], action->node);
		assert_int_equal(w->replies[token]++, 0);
		break;
	}
}

static void drain_actions(struct world *w)
{
	struct kr_round_action action;

	while (kr_rounds_action(&w->rounds, &action))
		note_action(w, &action);
}

static void ask_randomly(struct world *w)
{
	struct kr_round_ask asked = {.node = 1 + pick(w, NODES), .ring = "", .inlined = pick(w, 3) == 0};

	if (w->asked >= TOKENS)
		return;
	asked.order = names[asked.node];
	asked.token = (void *)(uintptr_t)w->asked;
	w->inlined[w->asked] = asked.inlined;
	w->owner[w->asked] = asked.node;
	if (kr_rounds_ask(&w->rounds, &asked) == 0)
		w->asked++;
}

/* One thing that the world outside may do now. GENTLE: only what makes progress. */
static void happen(struct world *w, bool gentle)
{
	switch (pick(w, gentle ? 4 : 10)) {
	case 0:
		if (w->chain && w->sent_count > w->accepted_count) {
			bool refuse = !gentle && pick(w, 12) == 0;

			kr_rounds_accepted(&w->rounds, w->round, w->sent[w->accepted_count++], refuse ? -EIO : 0);
		}
		break;
	case 1:
		if (w->chain && w->sent_count > 0)
			kr_rounds_received(&w->rounds, w->round);
		break;
	case 2:
		if (w->write_round || w->finish_round) {
			uint64_t round = w->write_round | w->finish_round;

			w->write_round = w->finish_round = 0;
			kr_rounds_finished(&w->rounds, round, !gentle && pick(w, 8) == 0 ? -ENOSPC : 0);
		}
		break;
	case 3:
		if (w->drain_round) {
			uint64_t round = w->drain_round;

			w->drain_round = 0;
			kr_rounds_drained(&w->rounds, round);
		}
		break;
	case 4:
		if (pick(w, 4) == 0)
			kr_rounds_lost(&w->rounds, 1 + pick(w, NODES));
		break;
	case 5:
		if (pick(w, 3) == 0)
			kr_rounds_broken(&w->rounds, w->round - pick(w, 2));
		break;
	case 6:
		if (pick(w, 4) == 0)
			kr_rounds_failed(&w->rounds, w->round - pick(w, 2), -EIO);
		break;
	case 7:
		kr_rounds_hold(&w->rounds, pick(w, 4) == 0);
		break;
	default:
		ask_randomly(w);
	}
}

static void every_ask_is_answered_once_whatever_happens(void **state)
{
	(void)state;
	for (int i = 1; i <= NODES; i++)
		snprintf(names[i], sizeof names[i], "n%d", (i * 7) % 11);
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct world *w = calloc(1, sizeof *w);
		unsigned steps = 0;

		assert_non_null(w);
		w->seed = seed;
		kr_rounds_init(&w->rounds, next_number, &w->last_number);
		for (int i = 0; i < STEPS; i++) {
			happen(w, false);
			drain_actions(w);
		}
		kr_rounds_hold(&w->rounds, false);
		drain_actions(w);
		while (!kr_rounds_idle(&w->rounds)) {
			happen(w, true);
			drain_actions(w);
			assert_true(++steps < 100000);
		}
		for (unsigned i = 0; i < w->asked; i++)
			assert_int_equal(w->replies[i], 1);
		kr_rounds_fini(&w->rounds);
		free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_ask_is_answered_once_whatever_happens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
