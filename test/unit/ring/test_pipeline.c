/* Pipeline membership: the order, who hears of a change, and random histories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "ring/pipeline.h"

enum { NODES = 12 };

/* What each node believes its upstream to be, kept from replies and changes as a real node does. */
struct world {
	struct kr_pipeline pipeline;
	bool member[NODES + 1];
	uint32_t upstream[NODES + 1];
};

static const char *name_of(uint32_t node)
{
	static char names[NODES + 1][16];

	snprintf(names[node], sizeof(names[node]), "n%u", node);
	return names[node];
}

static void hear(void *context, uint32_t node, uint32_t upstream)
{
	struct world *world = context;

	assert_true(world->member[node]);
	assert_int_not_equal(world->upstream[node], upstream);
	world->upstream[node] = upstream;
}

static void join(struct world *world, uint32_t node)
{
	uint32_t upstream = 99;

	world->member[node] = true;
	assert_int_equal(kr_pipeline_join(&world->pipeline, node, name_of(node), hear, world, &upstream), 0);
	world->upstream[node] = upstream;
}

static void leave(struct world *world, uint32_t node)
{
	bool was = world->member[node];

	world->member[node] = false;
	assert_int_equal(kr_pipeline_leave(&world->pipeline, node, hear, world), was);
}

static int put_last(struct world *world, uint32_t node, uint32_t slow)
{
	return kr_pipeline_put_last(&world->pipeline, node, slow, hear, world, &world->upstream[node]);
}

static void members_pull_in_ring_order_from_the_first_that_joined(void **state)
{
	struct world world = {0};

	(void)state;
	kr_pipeline_init(&world.pipeline);
	join(&world, 5);
	join(&world, 10);
	join(&world, 2);
	join(&world, 7);
	assert_int_equal(world.upstream[5], 0);
	assert_int_equal(world.upstream[7], 5);
	assert_int_equal(world.upstream[10], 7);
	assert_int_equal(world.upstream[2], 10);
	kr_pipeline_fini(&world.pipeline);
}

static void the_beginning_stays_when_the_first_leaves(void **state)
{
	struct world world = {0};

	(void)state;
	kr_pipeline_init(&world.pipeline);
	join(&world, 5);
	join(&world, 8);
	join(&world, 2);
	leave(&world, 5);
	assert_int_equal(world.upstream[8], 0);
	assert_int_equal(world.upstream[2], 8);
	join(&world, 6);
	assert_int_equal(world.upstream[6], 0);
	assert_int_equal(world.upstream[8], 6);
	kr_pipeline_fini(&world.pipeline);
}

static void an_upstream_that_failed_is_passed_over_by_that_node_alone(void **state)
{
	struct world world = {0};
	uint32_t upstream;

	(void)state;
	kr_pipeline_init(&world.pipeline);
	for (uint32_t node = 1; node <= 4; node++)
		join(&world, node);
	assert_int_equal(kr_pipeline_reparent(&world.pipeline, 3, 2, &upstream), 0);
	assert_int_equal(upstream, 1);
	assert_int_equal(kr_pipeline_upstream(&world.pipeline, 4), 3);
	assert_int_equal(kr_pipeline_reparent(&world.pipeline, 3, 1, &upstream), 0);
	assert_int_equal(upstream, 0);
	assert_int_equal(kr_pipeline_reparent(&world.pipeline, 3, 0, &upstream), 0);
	assert_int_equal(upstream, 0);
	assert_int_equal(kr_pipeline_reparent(&world.pipeline, 9, 1, &upstream), -ENOENT);
	kr_pipeline_fini(&world.pipeline);
}

static void who_joins_again_is_trusted_again(void **state)
{
	struct world world = {0};
	uint32_t upstream;

	(void)state;
	kr_pipeline_init(&world.pipeline);
	join(&world, 1);
	join(&world, 2);
	assert_int_equal(kr_pipeline_reparent(&world.pipeline, 2, 1, &upstream), 0);
	world.upstream[2] = upstream;
	leave(&world, 1);
	assert_int_equal(world.upstream[2], 0);
	join(&world, 1);
	assert_int_equal(world.upstream[2], 1);
	kr_pipeline_fini(&world.pipeline);
}

static void a_slow_member_stands_behind_the_others_and_they_pull_past_it(void **state)
{
	struct world world = {0};
	uint32_t upstream;

	(void)state;
	kr_pipeline_init(&world.pipeline);
	for (uint32_t node = 1; node <= 5; node++)
		join(&world, node);
	assert_int_equal(kr_pipeline_beside(&world.pipeline, 4, 3, &upstream), 0);
	assert_int_equal(upstream, 2);
	assert_int_equal(kr_pipeline_beside(&world.pipeline, 2, 1, &upstream), 0);
	assert_int_equal(upstream, 0);
	assert_int_equal(kr_pipeline_beside(&world.pipeline, 3, 4, &upstream), -ENOENT);
	assert_int_equal(put_last(&world, 5, 3), -EPERM); /* not its upstream */
	assert_int_equal(put_last(&world, 4, 3), 0);
	assert_int_equal(world.upstream[4], 2);
	assert_int_equal(world.upstream[5], 4);
	assert_int_equal(world.upstream[3], 5);
	join(&world, 6);
	assert_int_equal(world.upstream[6], 5);
	assert_int_equal(world.upstream[3], 6);
	assert_int_equal(put_last(&world, 3, 6), -EPERM); /* is slow itself */
	assert_int_equal(put_last(&world, 2, 1), 0);      /* before the other slow one */
	assert_int_equal(world.upstream[2], 0);
	assert_int_equal(world.upstream[1], 6);
	assert_int_equal(world.upstream[3], 1);
	assert_int_equal(put_last(&world, 3, 1), 0);
	assert_int_equal(world.upstream[3], 6);
	assert_int_equal(world.upstream[1], 3);
	leave(&world, 3);
	join(&world, 3);
	assert_int_equal(world.upstream[3], 2);
	assert_int_equal(world.upstream[4], 3);
	assert_int_equal(world.upstream[1], 6);
	kr_pipeline_fini(&world.pipeline);
}

/* Every member's chain of upstreams ends at the server, over members only. */
static void check(const struct world *world)
{
	for (uint32_t node = 1; node <= NODES; node++) {
		uint32_t at = node;
		int steps = 0;

		if (!world->member[node])
			continue;
		assert_int_equal(world->upstream[node], kr_pipeline_upstream(&world->pipeline, node));
		while ((at = world->upstream[at]) != 0) {
			assert_true(world->member[at]);
			assert_true(++steps <= NODES);
		}
	}
}

static void random_histories_keep_every_node_informed_and_never_make_a_circle(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 200; seed++) {
		struct world world = {0};
		unsigned random = seed;

		kr_pipeline_init(&world.pipeline);
		for (int step = 0; step < 300; step++) {
			uint32_t node = (uint32_t)rand_r(&random) % NODES + 1;
			int what = rand_r(&random) % 10;
			uint32_t upstream;

			if (what < 3)
				join(&world, node);
			else if (what < 5)
				leave(&world, node);
			else if (what < 7)
				(void)put_last(&world, node, world.upstream[node]);
			else if (world.member[node] &&
				kr_pipeline_reparent(&world.pipeline, node, world.upstream[node], &upstream) == 0)
				world.upstream[node] = upstream;
			check(&world);
		}
		kr_pipeline_fini(&world.pipeline);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_pull_in_ring_order_from_the_first_that_joined),
		cmocka_unit_test(the_beginning_stays_when_the_first_leaves),
		cmocka_unit_test(an_upstream_that_failed_is_passed_over_by_that_node_alone),
		cmocka_unit_test(who_joins_again_is_trusted_again),
		cmocka_unit_test(a_slow_member_stands_behind_the_others_and_they_pull_past_it),
		cmocka_unit_test(random_histories_keep_every_node_informed_and_never_make_a_circle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
