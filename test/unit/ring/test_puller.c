/* The puller against a world of upstreams that answer out of order, break and come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "ring/puller.h"

enum { BLOCKS = 64, WINDOW = 8, WAITERS = 400 };

struct waiter {
	struct kr_fetch_waiter waiter;
	uint64_t block;
	bool waiting;
};

struct world {
	struct kr_puller puller;
	bool here[BLOCKS];
	uint64_t asked_from[BLOCKS]; /* 0: not in flight */
	int in_flight;
	struct waiter waiters[WAITERS];
	uint64_t upstreams;
	unsigned random;
};

static bool is_here(void *context, uint64_t block)
{
	return ((struct world *)context)->here[block];
}

static unsigned roll(struct world *world, unsigned sides)
{
	return (unsigned)rand_r(&world->random) % sides;
}

static void ask(struct world *world)
{
	uint64_t blocks[WINDOW * 2];
	size_t count = kr_puller_next(&world->puller, blocks, 1 + roll(world, WINDOW * 2));

	for (size_t i = 0; i < count; i++) {
		assert_int_equal(world->asked_from[blocks[i]], 0);
		assert_false(world->here[blocks[i]]);
		world->asked_from[blocks[i]] = world->puller.upstream;
		world->in_flight++;
	}
	assert_true(world->in_flight <= WINDOW);
}

static void want(struct world *world, uint64_t block)
{
	for (int i = 0; i < WAITERS && !world->here[block]; i++) {
		struct waiter *waiter = &world->waiters[i];

		if (waiter->waiting)
			continue;
		waiter->waiting = true;
		waiter->block = block;
		assert_int_equal(kr_puller_want(&world->puller, block, &waiter->waiter), 0);
		return;
	}
}

static void arrive(struct world *world, uint64_t block)
{
	struct kr_list woken;
	struct waiter *waiter;

	world->here[block] = true;
	world->asked_from[block] = 0;
	world->in_flight--;
	kr_list_init(&woken);
	assert_true(kr_puller_arrived(&world->puller, block, &woken));
	while ((waiter = KR_LIST_POP(&woken, struct waiter, waiter.link))) {
		assert_true(waiter->waiting);
		assert_int_equal(waiter->block, block);
		waiter->waiting = false;
	}
	for (int i = 0; i < WAITERS; i++)
		assert_false(world->waiters[i].waiting && world->waiters[i].block == block);
}

static void arrive_any(struct world *world)
{
	uint64_t from = roll(world, BLOCKS);

	for (uint64_t i = 0; i < BLOCKS; i++) {
		uint64_t block = (from + i) % BLOCKS;

		if (world->asked_from[block]) {
			arrive(world, block);
			return;
		}
	}
}

static void lose(struct world *world, uint64_t upstream)
{
	uint64_t count = 0;

	for (int i = 0; i < BLOCKS; i++) {
		if (world->asked_from[i] == upstream) {
			world->asked_from[i] = 0;
			world->in_flight--;
			count++;
		}
	}
	assert_int_equal(kr_puller_lost(&world->puller, upstream), count);
}

static void forget_one(struct world *world)
{
	struct waiter *waiter = &world->waiters[roll(world, WAITERS)];

	if (!waiter->waiting)
		return;
	kr_list_remove(&waiter->waiter.link);
	waiter->waiting = false;
}

static void step(struct world *world)
{
	switch (roll(world, 12)) {
	case 0:
	case 1:
		want(world, roll(world, BLOCKS));
		break;
	case 2:
		forget_one(world);
		break;
	case 3: {
		uint64_t from = roll(world, BLOCKS);

		kr_puller_ahead(&world->puller, from, from + roll(world, (unsigned)(BLOCKS - from) + 1));
		break;
	}
	case 4:
		kr_puller_set_upstream(&world->puller, roll(world, 4) ? ++world->upstreams : 0);
		break;
	case 5:
		if (world->upstreams)
			lose(world, 1 + roll(world, (unsigned)world->upstreams));
		break;
	case 6: /* evicted */ {
		uint64_t block = roll(world, BLOCKS);

		if (!world->asked_from[block])
			world->here[block] = false;
		break;
	}
	case 7:
	case 8:
	case 9:
		arrive_any(world);
		break;
	default:
		ask(world);
	}
}

/* With a live upstream everything that is wanted comes. */
static void drain(struct world *world)
{
	for (uint64_t upstream = 1; upstream <= world->upstreams; upstream++)
		lose(world, upstream);
	kr_puller_set_upstream(&world->puller, ++world->upstreams);
	for (int i = 0; i < 10 * BLOCKS && !kr_puller_idle(&world->puller); i++) {
		ask(world);
		arrive_any(world);
	}
	assert_true(kr_puller_idle(&world->puller));
	for (int i = 0; i < WAITERS; i++)
		assert_false(world->waiters[i].waiting);
}

static void random_histories_lose_no_waiter_and_ask_no_block_twice(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 300; seed++) {
		struct world *world = calloc(1, sizeof(*world));

		assert_non_null(world);
		world->random = seed;
		kr_puller_init(&world->puller, WINDOW, is_here, world);
		for (int i = 0; i < 1000; i++)
			step(world);
		drain(world);
		kr_puller_fini(&world->puller);
		free(world);
	}
}

static void demanded_blocks_go_before_read_ahead(void **state)
{
	struct world world = {0};
	uint64_t blocks[4];

	(void)state;
	kr_puller_init(&world.puller, WINDOW, is_here, &world);
	kr_puller_ahead(&world.puller, 0, 20);
	kr_puller_set_upstream(&world.puller, 1);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 2), 2);
	assert_int_equal(blocks[1], 1);
	assert_int_equal(kr_puller_want(&world.puller, 15, NULL), 0);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 2), 2);
	assert_int_equal(blocks[0], 15);
	assert_int_equal(blocks[1], 2);
	kr_puller_fini(&world.puller);
}

static void a_reset_hands_back_every_waiter(void **state)
{
	struct world world = {0};
	struct kr_list woken;
	uint64_t blocks[4];
	int count = 0;

	(void)state;
	kr_list_init(&woken);
	kr_puller_init(&world.puller, WINDOW, is_here, &world);
	kr_puller_set_upstream(&world.puller, 1);
	for (uint64_t i = 0; i < 6; i++)
		want(&world, i % 5);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 3), 3);
	kr_puller_reset(&world.puller, &woken);
	while (kr_list_pop(&woken))
		count++;
	assert_int_equal(count, 6);
	assert_true(kr_puller_idle(&world.puller));
	assert_false(kr_puller_arrived(&world.puller, 0, &woken));
	kr_puller_fini(&world.puller);
}

static void a_lost_upstream_is_asked_nothing_more(void **state)
{
	struct world world = {0};
	uint64_t blocks[4];

	(void)state;
	kr_puller_init(&world.puller, WINDOW, is_here, &world);
	kr_puller_set_upstream(&world.puller, 7);
	assert_int_equal(kr_puller_want(&world.puller, 3, NULL), 0);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 4), 1);
	assert_int_equal(kr_puller_lost(&world.puller, 7), 1);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 4), 0);
	kr_puller_set_upstream(&world.puller, 8);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 4), 1);
	assert_int_equal(blocks[0], 3);
	kr_puller_fini(&world.puller);
}

static void a_renewed_puller_asks_everything_anew_in_the_same_order(void **state)
{
	struct world world = {0};
	uint64_t blocks[4];

	(void)state;
	kr_puller_init(&world.puller, WINDOW, is_here, &world);
	kr_puller_set_upstream(&world.puller, 7);
	want(&world, 3);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 4), 1);
	kr_puller_set_upstream(&world.puller, 8);
	want(&world, 5);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 4), 1);
	kr_puller_renew(&world.puller);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 4), 0);
	kr_puller_set_upstream(&world.puller, 9);
	assert_int_equal(kr_puller_next(&world.puller, blocks, 4), 2);
	assert_int_equal(blocks[0], 3);
	assert_int_equal(blocks[1], 5);
	kr_puller_reset(&world.puller, NULL);
	kr_puller_fini(&world.puller);
}

/* BLOCKS come evenly in MS milliseconds, from *NOW_NS on. */
static void blocks_come(struct kr_puller *puller, uint64_t *now_ns, uint64_t blocks, uint64_t ms)
{
	for (uint64_t i = 0; i < blocks; i++) {
		*now_ns += ms * 1000000 / blocks;
		kr_puller_adapt(puller, *now_ns, 0, KR_PULL_WINDOW_MIN);
	}
}

static void the_window_is_what_comes_in_a_tenth_of_a_second(void **state)
{
	uint64_t now_ns = 5000000000;
	struct kr_puller puller;

	(void)state;
	kr_puller_init(&puller, KR_PULL_WINDOW_MIN, is_here, NULL);
	blocks_come(&puller, &now_ns, 1, 1); /* after a pause: no rate */
	assert_int_equal(puller.window, KR_PULL_WINDOW_MIN);
	blocks_come(&puller, &now_ns, 60, 120);
	assert_in_range(puller.window, 48, 50);
	blocks_come(&puller, &now_ns, 8, 40); /* slower: down in steps */
	assert_in_range(puller.window, 20, 37);
	blocks_come(&puller, &now_ns, 4, 800);
	assert_int_equal(puller.window, KR_PULL_WINDOW_MIN);
	blocks_come(&puller, &now_ns, 4000, 400);
	assert_int_equal(puller.window, KR_PULL_WINDOW);
	kr_puller_fini(&puller);
}

static void only_read_ahead_waits_for_a_batch(void **state)
{
	struct world world = {0};
	uint64_t blocks[8];

	(void)state;
	kr_puller_init(&world.puller, 16, is_here, &world);
	kr_puller_set_upstream(&world.puller, 1);
	kr_puller_ahead(&world.puller, 0, 32);
	assert_false(kr_puller_holds_back(&world.puller)); /* nothing is asked yet */
	assert_int_equal(kr_puller_next(&world.puller, blocks, 8), 8);
	assert_false(kr_puller_holds_back(&world.puller));
	assert_int_equal(kr_puller_next(&world.puller, blocks, 7), 7);
	assert_true(kr_puller_holds_back(&world.puller));
	assert_int_equal(kr_puller_want(&world.puller, 40, NULL), 0);
	assert_false(kr_puller_holds_back(&world.puller));
	kr_puller_fini(&world.puller);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_histories_lose_no_waiter_and_ask_no_block_twice),
		cmocka_unit_test(demanded_blocks_go_before_read_ahead),
		cmocka_unit_test(a_reset_hands_back_every_waiter),
		cmocka_unit_test(a_lost_upstream_is_asked_nothing_more),
		cmocka_unit_test(a_renewed_puller_asks_everything_anew_in_the_same_order),
		cmocka_unit_test(the_window_is_what_comes_in_a_tenth_of_a_second),
		cmocka_unit_test(only_read_ahead_waits_for_a_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
