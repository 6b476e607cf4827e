/* Leases of nodes under random operations: every one is served, and none without its lease. */
#include "test/unit/fuse/file/holder_world.h"

static void store(struct world *world, struct node *node)
{
	check_store(world, node);
	node->page_dirty = true;
}

static void random_event(struct world *world)
{
	struct node *node = &world->node[dice(world, NODES)];
	struct op *op = &node->ops[dice(world, OPS)];

	switch (dice(world, 10)) {
	case 0:
	case 1:
		if (node->up.count && !node->lost)
			server_takes(world, node, shift(&node->up));
		break;
	case 2:
	case 3:
		if (node->down.count && !node->lost)
			node_takes(world, node, shift(&node->down));
		break;
	case 4:
		if (op->used && op->inside && op->epoch == node->holder.epoch && (!node->fenced || op->through) &&
			!node->lost)
			serve(world, node, op);
		break;
	case 5:
		if (!world->quiet)
			new_op(world, node);
		break;
	case 6:
		if (node->flushing && !node->lost && !node->fenced)
			end_flush(world, node);
		break;
	case 7:
		if (node->holder.dropping)
			end_drop(world, node);
		kr_lease_state_linger(&node->holder, !world->quiet && dice(world, 3) == 0);
		break;
	case 8:
		if (!world->quiet && node->pages && !node->holder.suspect && dice(world, 4) == 0)
			store(world, node);
		else if (!world->quiet && dice(world, 10) == 0)
			kr_lease_state_release(&node->holder, KR_LEASE_ALL);
		else if (node->holder.refused && dice(world, 4) == 0)
			kr_lease_state_retry(&node->holder);
		step(world, node);
		break;
	default:
		/* Everybody flushes now and then. */
		if (node->holder.dirty && !node->flushing && !node->lost && !node->fenced && !node->holder.refused &&
			kr_lease_state_may_flush(&node->holder))
			node->flushing = true;
		if (world->breaks && (node->fenced || node->lost || (!world->quiet && dice(world, 10) == 0)))
			break_something(world, node);
	}
}

static void assert_quiet(const struct world *world)
{
	for (unsigned i = 0; i < NODES; i++) {
		const struct node *node = &world->node[i];

		for (unsigned k = 0; k < OPS; k++)
			assert_false(node->ops[k].used);
		assert_false(node->holder.recall_open);
		assert_false(node->holder.asked);
		assert_false(node->holder.returning);
		assert_false(node->holder.dropping);
		assert_false(node->holder.dirty && !(node->holder.held & KR_LEASE_WRITE) && !node->holder.refused);
		assert_int_equal(node->holder.held, kr_lease_table_held(&world->table, i + 1));
	}
	assert_true(kr_list_empty(&world->table.waiting));
}

static void run(uint64_t seed, bool breaks)
{
	static const struct kr_lease_actions actions = {.grant = on_grant, .recall = on_recall};
	struct world *world = calloc(1, sizeof(*world));

	world->seed = seed;
	world->breaks = breaks;
	kr_lease_table_init(&world->table, &actions, world);
	for (unsigned i = 0; i < NODES; i++)
		kr_lease_state_init(&world->node[i].holder);
	for (unsigned i = 0; i < NODES; i++)
		world->node[i].mappable = dice(world, 2);
	for (unsigned i = 0; i < STEPS; i++)
		random_event(world);
	world->quiet = true;
	for (unsigned i = 0; i < QUIET; i++)
		random_event(world);
	assert_true(world->served > 10);
	if (!breaks)
		assert_quiet(world);
	else
		for (unsigned i = 0; i < NODES; i++)
			for (unsigned k = 0; k < OPS; k++)
				assert_false(world->node[i].ops[k].used);
	for (unsigned i = 0; i < NODES; i++)
		kr_lease_table_expire(&world->table, i + 1);
	kr_lease_table_fini(&world->table);
	free(world);
}

static void every_operation_is_served_and_none_under_a_lost_lease(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++)
		run(seed, false);
}

static void broken_connections_and_lost_sessions_change_nothing_of_that(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++)
		run(seed, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_is_served_and_none_under_a_lost_lease),
		cmocka_unit_test(broken_connections_and_lost_sessions_change_nothing_of_that),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
