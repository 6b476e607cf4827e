/* The lanes, with a puller, in a small world: connections that bring blocks at given rates, stall, die and come back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring/lanes.h"
#include "ring/puller.h"
#include "test/unit/effort.h"

enum { BLOCKS = 4096, QUEUE = 1024, SEEDS = 200, HISTORY = 400, BLOCK = 128 << 10 };

/* What a connection has been asked and has not sent, in that order. */
struct line {
	uint64_t blocks[QUEUE];
	bool taken_back[QUEUE];
	size_t count;
	double rate, saved; /* blocks in a tick; what is left of one */
	uint64_t bytes;
};

struct world {
	struct kr_lanes lanes;
	struct kr_puller puller;
	struct line lines[KR_LANES_MAX];
	double rate; /* of a new line */
	double link; /* of all lines together; 0: no limit */
	uint64_t rtt_us;
	bool here[BLOCKS];
	uint64_t arrived, twice, next; /* blocks; those that were here already; the next to be wanted */
	uint64_t asked, most_asked;    /* of all lines now, and at most */
	uint32_t most_open;
	unsigned random;
};

static bool is_here(void *context, uint64_t block)
{
	return ((struct world *)context)->here[block % BLOCKS];
}

static struct world *new_world(uint32_t most, double rate, uint64_t rtt_us, uint64_t window)
{
	struct world *world = calloc(1, sizeof(*world));

	kr_lanes_init(&world->lanes, most);
	kr_puller_init(&world->puller, window, is_here, world);
	kr_puller_set_upstream(&world->puller, 1);
	world->rate = rate;
	world->rtt_us = rtt_us;
	kr_lanes_opened(&world->lanes, 0);
	world->lines[0].rate = rate;
	return world;
}

static void free_world(struct world *world)
{
	struct kr_list waiters;

	kr_list_init(&waiters);
	kr_puller_reset(&world->puller, &waiters);
	kr_puller_fini(&world->puller);
	free(world);
}

static void requeue(struct world *world, struct line *line)
{
	for (size_t i = line->count; i-- > 0;) {
		struct kr_fetch *fetch = kr_fetches_find(&world->puller.fetches, line->blocks[i]);

		if (!line->taken_back[i] && fetch && fetch->state == KR_FETCH_ASKED)
			kr_fetches_mark_queued(&world->puller.fetches, fetch);
		line->taken_back[i] = true;
	}
}

static void die(struct world *world, uint32_t lane)
{
	struct line *line = &world->lines[lane];

	kr_lanes_closed(&world->lanes, lane);
	requeue(world, line);
	world->asked -= line->count;
	memset(line, 0, sizeof(*line));
}

static void ask(struct world *world)
{
	uint64_t blocks[QUEUE];
	uint32_t room;
	size_t count;
	int lane;

	while ((lane = kr_lanes_pick(&world->lanes, world->puller.window, &room)) >= 0) {
		struct line *line = &world->lines[lane];

		assert_true(world->lanes.lanes[lane].open);
		count = kr_puller_next(&world->puller, blocks, room < QUEUE / 2 ? room : QUEUE / 2);
		if (count == 0)
			break;
		assert_true(line->count + count <= QUEUE);
		for (size_t i = 0; i < count; i++) {
			line->taken_back[line->count] = false;
			line->blocks[line->count++] = blocks[i];
		}
		kr_lanes_asked(&world->lanes, (uint32_t)lane, (uint32_t)count);
		world->asked += count;
	}
	if (world->asked > world->most_asked)
		world->most_asked = world->asked;
	world->lanes.full = true;
}

/* Demand never ends: block numbers are used again. */
static void want_more(struct world *world)
{
	while (world->puller.fetches.queued_count < 2 * world->puller.window) {
		world->here[world->next % BLOCKS] = false;
		assert_int_equal(kr_puller_want(&world->puller, world->next++, NULL), 0);
	}
}

static void bring(struct world *world, uint32_t lane)
{
	struct line *line = &world->lines[lane];
	struct kr_list waiters;

	kr_list_init(&waiters);
	kr_lanes_came(&world->lanes, lane);
	if (kr_puller_arrived(&world->puller, line->blocks[0], &waiters))
		world->arrived++;
	else
		world->twice++;
	world->here[line->blocks[0] % BLOCKS] = true;
	line->bytes += BLOCK;
	line->count--;
	world->asked--;
	memmove(line->blocks, line->blocks + 1, line->count * sizeof(line->blocks[0]));
	memmove(line->taken_back, line->taken_back + 1, line->count * sizeof(line->taken_back[0]));
}

/* A slice of a tick: each line brings its share. */
static void flow(struct world *world, double part)
{
	double sum = 0, squeeze = 1;

	for (uint32_t i = 0; i < KR_LANES_MAX; i++)
		sum += world->lines[i].count > 0 ? world->lines[i].rate : 0;
	if (world->link > 0 && sum > world->link)
		squeeze = world->link / sum;
	for (uint32_t i = 0; i < KR_LANES_MAX; i++) {
		struct line *line = &world->lines[i];

		line->saved += line->count > 0 ? line->rate * squeeze * part : 0;
		while (line->saved >= 1 && line->count > 0) {
			line->saved -= 1;
			bring(world, i);
		}
		line->bytes += line->count > 0 && line->rate > 0; /* some of a block */
		if (line->count == 0)
			line->saved = 0;
	}
}

static void apply(struct world *world, struct kr_lanes_steps steps)
{
	for (uint32_t i = 0; i < KR_LANES_MAX; i++) {
		const uint64_t bit = UINT64_C(1) << i;

		if (steps.take_back & bit)
			requeue(world, &world->lines[i]);
		if (steps.close & bit)
			die(world, i);
		if (steps.open & bit) {
			assert_false(world->lanes.lanes[i].open);
			kr_lanes_opened(&world->lanes, i);
			world->lines[i].rate = world->rate;
		}
	}
	assert_true(world->lanes.count <= world->lanes.most);
	if (world->lanes.count > world->most_open)
		world->most_open = world->lanes.count;
}

static void tick(struct world *world)
{
	uint64_t bytes[KR_LANES_MAX];

	for (uint32_t i = 0; i < KR_LANES_MAX; i++)
		bytes[i] = world->lines[i].bytes;
	apply(world, kr_lanes_tick(&world->lanes, bytes, world->rtt_us));
}

/* TICKS with all the demand there can be.  Returns the blocks that have arrived. */
static uint64_t run(struct world *world, int ticks)
{
	uint64_t before = world->arrived;

	while (ticks-- > 0) {
		for (int slice = 0; slice < 10; slice++) {
			want_more(world);
			ask(world);
			flow(world, 0.1);
		}
		tick(world);
	}
	return world->arrived - before;
}

static void a_short_link_has_one_lane_whatever_its_rate(void **state)
{
	struct world *world = new_world(64, 200, 400, 256); /* 105 MB/s with 0.4 ms */

	(void)state;
	run(world, 400);
	world->lines[0].rate = 600; /* 315 MB/s */
	run(world, 400);
	assert_int_equal(world->most_open, 1);
	assert_int_equal(world->twice, 0);
	free_world(world);
}

static void a_long_link_gets_lanes_by_what_is_under_way(void **state)
{
	struct world *world = new_world(64, 120, 40000, 128); /* 63 MB/s with 40 ms: 2.5 MB */

	(void)state;
	world->link = 230;
	assert_true(run(world, 10) > 0);
	assert_in_range(world->lanes.count, 3, 10);
	assert_true(run(world, 40) > 40 * 220);
	assert_int_equal(world->twice, 0);
	free_world(world);
}

static void lanes_that_bring_no_more_do_not_stay(void **state)
{
	struct world *world = new_world(64, 12, 10000, 64); /* a slow link, which one lane fills */
	int more = 0;

	(void)state;
	world->link = 12;
	for (int i = 0; i < 4000; i++) {
		run(world, 1);
		more += world->lanes.count > 1;
	}
	assert_in_range(world->most_open, 2, 2);
	assert_true(more < 400);
	free_world(world);
}

static void where_each_lane_brings_more_there_are_as_many_as_may_be(void **state)
{
	struct world *world = new_world(24, 2, 40000, 64); /* packets are lost: half a MB/s each */

	(void)state;
	run(world, 60);
	assert_int_equal(world->lanes.count, 24);
	assert_true(run(world, 40) > 40 * 24 * 2 * 9 / 10);
	free_world(world);
}

static void lanes_go_when_nobody_needs_them(void **state)
{
	struct world *world = new_world(24, 120, 40000, 128);

	(void)state;
	run(world, 40);
	assert_true(world->lanes.count > 1);
	for (int i = 0; i < 200; i++) {
		flow(world, 1);
		tick(world);
	}
	assert_int_equal(world->lanes.count, 1);
	free_world(world);
}

static void a_throttled_lane_costs_no_more_than_its_share(void **state)
{
	struct world *world = new_world(4, 60, 40000, 128);
	uint64_t all, less;

	(void)state;
	run(world, 100);
	assert_int_equal(world->lanes.count, 4);
	all = run(world, 100);
	world->lines[2].rate = 6;
	run(world, 2);
	less = run(world, 100);
	assert_true(less >= all * 3 / 4);
	assert_true(world->twice < 100);
	/* What it still owes is little, so that a program that reads in order does not wait for long. */
	assert_true(world->lanes.lanes[2].owed <= 10);
	free_world(world);
}

static void blocks_of_a_silent_lane_are_asked_of_others_soon(void **state)
{
	struct world *world = new_world(4, 60, 20000, 128);
	uint64_t stuck;

	(void)state;
	run(world, 100);
	stuck = world->lines[1].blocks[0];
	assert_true(world->lines[1].count > 0);
	world->lines[1].rate = 0;
	run(world, 4);
	assert_null(kr_fetches_find(&world->puller.fetches, stuck));
	run(world, KR_LANES_DEAD);
	assert_true(world->lines[1].rate > 0); /* another one in its place */
	assert_int_equal(world->lanes.count, 4);
	free_world(world);
}

static void beside_a_sole_lane_that_is_silent_another_is_tried_with_few_blocks(void **state)
{
	struct world *world = new_world(8, 100, 200, 128);

	(void)state;
	run(world, 4);
	world->lines[0].rate = 0;
	world->rate = 0; /* the peer is to blame */
	run(world, 20);
	assert_int_equal(world->lanes.count, 2);
	assert_true(world->lines[1].count <= KR_LANES_UNPROVEN);
	world->lines[0].rate = world->lines[1].rate = 100;
	run(world, 40);
	assert_int_equal(world->lanes.count, 1);
	assert_true(world->twice <= 128 + KR_LANES_UNPROVEN);
	free_world(world);
}

static void a_sole_lane_that_is_dead_is_replaced(void **state)
{
	struct world *world = new_world(8, 100, 200, 128);

	(void)state;
	run(world, 4);
	world->lines[0].rate = 0; /* its connection is */
	assert_true(run(world, 8) > 300);
	run(world, 20);
	assert_int_equal(world->lanes.count, 1);
	assert_true(run(world, 10) > 900);
	free_world(world);
}

static void with_one_allowed_there_is_never_a_second(void **state)
{
	struct world *world = new_world(1, 100, 40000, 128);

	(void)state;
	run(world, 100);
	world->lines[0].rate = 0;
	run(world, 100);
	assert_int_equal(world->most_open, 1);
	free_world(world);
}

/* One step of a random history. */
static void disturb(struct world *world)
{
	uint32_t lane = (uint32_t)rand_r(&world->random) % world->lanes.most;
	struct line *line = &world->lines[lane];

	switch (rand_r(&world->random) % 12) {
	case 0: /* dies */
		if (world->lanes.lanes[lane].open)
			die(world, lane);
		break;
	case 1: /* is cut */
		line->rate = 0;
		break;
	case 2:
		line->rate /= 10;
		break;
	case 3:
		line->rate = line->rate > 0 ? 60 : 0;
		break;
	case 4:
		world->rate = rand_r(&world->random) % 3 * 30; /* new ones may connect nowhere */
		break;
	case 5:
		world->rtt_us = (uint64_t)(rand_r(&world->random) % 300000);
		break;
	default:;
	}
	/* The caller makes a new connection when the last has gone. */
	if (world->lanes.count == 0) {
		kr_lanes_opened(&world->lanes, lane);
		world->lines[lane].rate = 60;
	}
}

static bool all_are_cut(const struct world *world)
{
	for (uint32_t i = 0; i < world->lanes.most; i++) {
		if (world->lanes.lanes[i].open && world->lines[i].rate > 0)
			return false;
	}
	return true;
}

static bool is_settled(struct world *world)
{
	return world->puller.fetches.queued_count == 0 && world->puller.fetches.asked_count == 0;
}

static void no_block_is_lost_or_used_twice_in_random_histories(void **state)
{
	const char *given = getenv("RANDOM_SEED");
	unsigned first = given ? (unsigned)strtoul(given, NULL, 0) : 1,
		 count = given ? 1 : KR_EFFORT(SEEDS, SEEDS / 10);

	(void)state;
	for (unsigned seed = first; seed < first + count; seed++) {
		struct world *world = new_world(1 + seed % 16, 60, 20000, 64);

		printf("RANDOM_SEED=%u\n", seed);
		world->random = seed;
		for (int i = 0; i < HISTORY; i++) {
			disturb(world);
			want_more(world);
			ask(world);
			flow(world, 0.3);
			if (rand_r(&world->random) % 3 == 0)
				tick(world);
		}
		/* What is owed is bounded: the window, and what late lanes owe besides. */
		assert_true(world->most_asked <= 64 * (1 + (uint64_t)world->lanes.most));
		/* Then all is well again, and everything comes. */
		world->rate = 60;
		world->rtt_us = 20000;
		for (uint32_t i = 0; i < world->lanes.most; i++)
			world->lines[i].rate = world->lines[i].rate > 0 ? 60 : 0; /* what is cut remains cut */
		for (int i = 0; i < 100 && !is_settled(world); i++) {
			if (world->lanes.count == 0) {
				kr_lanes_opened(&world->lanes, 0);
				world->lines[0].rate = 60;
			}
			if (all_are_cut(world)) { /* the caller's own deadline */
				for (uint32_t lane = 0; lane < world->lanes.most; lane++)
					die(world, lane);
			}
			for (int slice = 0; slice < 10 && world->lanes.count > 0; slice++) {
				ask(world);
				flow(world, 0.1);
			}
			tick(world);
		}
		assert_true(is_settled(world));
		assert_int_equal(world->arrived, world->next);
		free_world(world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_link_has_one_lane_whatever_its_rate),
		cmocka_unit_test(a_long_link_gets_lanes_by_what_is_under_way),
		cmocka_unit_test(lanes_that_bring_no_more_do_not_stay),
		cmocka_unit_test(where_each_lane_brings_more_there_are_as_many_as_may_be),
		cmocka_unit_test(lanes_go_when_nobody_needs_them),
		cmocka_unit_test(a_throttled_lane_costs_no_more_than_its_share),
		cmocka_unit_test(blocks_of_a_silent_lane_are_asked_of_others_soon),
		cmocka_unit_test(beside_a_sole_lane_that_is_silent_another_is_tried_with_few_blocks),
		cmocka_unit_test(a_sole_lane_that_is_dead_is_replaced),
		cmocka_unit_test(with_one_allowed_there_is_never_a_second),
		cmocka_unit_test(no_block_is_lost_or_used_twice_in_random_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
