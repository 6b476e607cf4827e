/* The hedge in a small world: an upstream and a member beside it, which send blocks at given rates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "ring/hedge.h"

enum { OWED = 8, TICKS = 400, MEMBERS = 3 };

/* Rates in blocks for a hundred ticks. */
struct world {
	struct kr_hedge hedge;
	unsigned random;
	int upstream, beside; /* rates */
	bool server, slow, ahead;
	uint32_t silent;
	int tick, looks, trials, passed, blamed_at; /* -1: the upstream was not blamed */
	int given;                                  /* blocks from beside */
};

static void step(struct world *world, enum kr_hedge_step step)
{
	enum kr_hedge_begin begin;
	bool was_trying = world->hedge.trying;

	if (step == KR_HEDGE_BLAME)
		world->blamed_at = world->tick;
	if (step != KR_HEDGE_ASK)
		return;
	assert_true(world->hedge.asking);
	world->looks++;
	if (world->hedge.trying && ++world->passed % MEMBERS == 0) {
		kr_hedge_keep(&world->hedge); /* there is nobody further up */
		return;
	}
	begin = kr_hedge_begin(&world->hedge, OWED, world->server);
	if (begin == KR_HEDGE_IF_AHEAD && world->ahead)
		kr_hedge_start(&world->hedge, OWED);
	else if (begin == KR_HEDGE_IF_AHEAD)
		kr_hedge_behind(&world->hedge);
	world->trials += !was_trying && world->hedge.trying;
}

/* As many as RATE lets come in a tick, on the average. */
static int arrivals(struct world *world, int rate)
{
	int sure = rate / 100;

	return sure + ((int)((unsigned)rand_r(&world->random) % 100) < rate % 100);
}

/* What comes in a tick comes in any order. */
static void receive(struct world *world)
{
	int here = arrivals(world, world->upstream), there = world->hedge.trying ? arrivals(world, world->beside) : 0;

	world->silent = here > 0 ? 0 : world->silent + 1;
	while (here + there > 0 && world->blamed_at < 0) {
		bool beside = (int)((unsigned)rand_r(&world->random) % (unsigned)(here + there)) < there;

		here -= !beside;
		there -= beside;
		world->given += beside && world->hedge.trying;
		step(world, kr_hedge_came(&world->hedge, beside));
	}
}

static void run(struct world *world)
{
	kr_hedge_init(&world->hedge);
	world->blamed_at = -1;
	for (world->tick = 1; world->tick <= TICKS && world->blamed_at < 0; world->tick++) {
		receive(world);
		if (world->blamed_at < 0)
			step(world, kr_hedge_tick(&world->hedge, OWED, OWED, world->silent > 0, world->slow));
	}
}

static void an_upstream_with_the_same_rate_stays(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 500; seed++) {
		int rate = 100 + (int)(seed % 40) * 25;
		struct world world = {.random = seed, .upstream = rate, .beside = rate, .slow = true, .ahead = true};

		run(&world);
		assert_int_equal(world.blamed_at, -1);
		assert_true(world.trials > 0);
	}
}

static void an_upstream_with_a_tenth_of_the_rate_loses_soon(void **state)
{
	int late = 0;

	(void)state;
	for (unsigned seed = 1; seed <= 500; seed++) {
		int rate = 900 + (int)(seed % 100) * 100;
		struct world world = {
			.random = seed, .upstream = rate / 10, .beside = rate, .slow = true, .ahead = true};

		world.server = seed % 2;
		run(&world);
		assert_in_range(world.blamed_at, 1, 100);
		late += world.blamed_at > 9;
	}
	assert_true(late < 500 / 20); /* its blocks came first by chance */
}

static void a_silent_upstream_is_asked_beside_within_a_second_and_loses(void **state)
{
	struct world world = {.random = 1, .upstream = 0, .beside = 900};

	(void)state;
	run(&world);
	assert_int_equal(world.looks, 1);
	assert_in_range(world.blamed_at, 2, 4 + 2);
}

static void a_silent_upstream_loses_to_one_block_too(void **state)
{
	struct world world = {.random = 2, .upstream = 0, .beside = 100};

	(void)state;
	run(&world);
	assert_true(world.blamed_at > 0);
}

static void who_is_as_far_is_not_tried(void **state)
{
	struct world world = {.random = 3, .upstream = 200, .beside = 900, .slow = true};

	(void)state;
	run(&world);
	assert_int_equal(world.trials, 0);
	/* And is looked at more and more rarely. */
	assert_in_range(world.looks, 2, 9);
}

static void a_node_that_gets_what_it_can_looks_at_nobody(void **state)
{
	struct world world = {.random = 4, .upstream = 900, .beside = 9000, .ahead = true};

	(void)state;
	run(&world);
	assert_int_equal(world.looks, 0);
}

/* A server that is slow for all sends at the same low rate to both. */
static void trials_with_a_busy_server_cost_it_little(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 200; seed++) {
		struct world world = {.random = seed, .upstream = 300, .beside = 300, .slow = true, .server = true};

		run(&world);
		assert_int_equal(world.blamed_at, -1);
		assert_true(world.given <= 5 * KR_HEDGE_LOST);
	}
}

/* A server that pauses: all are silent, and neither has anything. */
static void pauses_of_the_server_blame_nobody(void **state)
{
	struct world world = {.random = 5, .upstream = 0, .beside = 0};

	(void)state;
	run(&world);
	assert_int_equal(world.blamed_at, -1);
	assert_in_range(world.trials, 3, 10); /* more and more rarely */
}

static void random_events_leave_it_able_to_decide(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 300; seed++) {
		struct world world = {.random = seed, .blamed_at = -1};
		struct kr_hedge *hedge = &world.hedge;
		int waiting = 0;

		kr_hedge_init(hedge);
		for (int event = 0; event < 2000; event++) {
			unsigned what = (unsigned)rand_r(&world.random) % 16, much = (unsigned)rand_r(&world.random);
			enum kr_hedge_step step = KR_HEDGE_NONE;

			if (what < 6)
				step = kr_hedge_tick(hedge, much % 9, much % 5, much % 3 == 0, much % 2);
			else if (what < 14)
				step = kr_hedge_came(hedge, what % 2);
			else if (hedge->asking && what == 14)
				(void)kr_hedge_begin(hedge, much % 9, much % 2);
			else if (hedge->asking && hedge->trying)
				kr_hedge_init(hedge); /* another upstream */
			else if (hedge->asking)
				kr_hedge_behind(hedge);
			assert_true(step == KR_HEDGE_NONE || step == KR_HEDGE_KEEP || hedge->asking);
			assert_true(step != KR_HEDGE_KEEP || (!hedge->asking && !hedge->trying));
			assert_true(step != KR_HEDGE_BLAME || hedge->trying);
			assert_in_range(hedge->hold, KR_HEDGE_FIRST, KR_HEDGE_HOLD_MAX);
			assert_true(hedge->patience >= 1);
			/* A trial ends, and without one there is another look. */
			waiting = step != KR_HEDGE_NONE || hedge->asking ? 0 : waiting + (what < 6);
			assert_true(waiting < 3 * KR_HEDGE_HOLD_MAX);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_upstream_with_the_same_rate_stays),
		cmocka_unit_test(an_upstream_with_a_tenth_of_the_rate_loses_soon),
		cmocka_unit_test(a_silent_upstream_is_asked_beside_within_a_second_and_loses),
		cmocka_unit_test(a_silent_upstream_loses_to_one_block_too),
		cmocka_unit_test(who_is_as_far_is_not_tried),
		cmocka_unit_test(a_node_that_gets_what_it_can_looks_at_nobody),
		cmocka_unit_test(trials_with_a_busy_server_cost_it_little),
		cmocka_unit_test(pauses_of_the_server_blame_nobody),
		cmocka_unit_test(random_events_leave_it_able_to_decide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
