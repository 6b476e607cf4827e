/* Topologies, aggregators and the orders of sends and receives, over regular and random placements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "mpiio/schedule/send_order.h"
#include "test/unit/mpiio/datatype/mpi_random_map.h"

enum { RANKS_MAX = 40 };

static struct kr_topology *topology_of(uint32_t ranks, const uint32_t *nodes)
{
	struct kr_place places[RANKS_MAX];
	struct kr_topology *topology;
	for (uint32_t i = 0; i < ranks; i++)
		places[i] = (struct kr_place){nodes[i], KR_NO_RING};
	assert_int_equal(kr_topology_new(ranks, places, NULL, &topology), 0);
	return topology;
}

/* NODES of PER_NODE ranks each, in blocks or dealt out in turn. */
static struct kr_topology *regular(uint32_t nodes, uint32_t per_node, bool block)
{
	uint32_t node[RANKS_MAX];
	for (uint32_t i = 0; i < nodes * per_node; i++)
		node[i] = block ? i / per_node : i % nodes;
	return topology_of(nodes * per_node, node);
}

static struct kr_aggregators *aggregators_of(const struct kr_topology *topology, uint32_t limit, const char *list)
{
	struct kr_aggregators *aggregators;
	assert_int_equal(kr_aggregators_new(topology, limit, list, &aggregators), 0);
	return aggregators;
}

/* ---- topology ---- */

static void nodes_are_in_the_order_of_their_lowest_ranks(void **unused)
{
	const uint32_t node[] = {7, 3, 7, 5, 3, 7};
	struct kr_topology *topology = topology_of(6, node);
	(void)unused;
	assert_int_equal(topology->nodes, 3);
	assert_int_equal(topology->node_max, 3);
	const uint32_t nodes[] = {0, 1, 0, 2, 1, 0}, local[] = {0, 0, 1, 0, 1, 2}, ranks[] = {0, 2, 5, 1, 4, 3};
	assert_memory_equal(topology->node, nodes, sizeof nodes);
	assert_memory_equal(topology->local, local, sizeof local);
	assert_memory_equal(topology->node_ranks, ranks, sizeof ranks);
	assert_int_equal(kr_topology_node_size(topology, 1), 2);
	kr_topology_free(topology);
}

static void nodes_are_in_ring_order_where_all_know_it(void **unused)
{
	struct kr_place places[] = {{10, 2}, {20, 0}, {10, 2}, {30, 1}};
	struct kr_topology *topology;
	(void)unused;
	assert_int_equal(kr_topology_new(4, places, NULL, &topology), 0);
	const uint32_t ring[] = {2, 0, 2, 1}, plain[] = {0, 1, 0, 2};
	assert_memory_equal(topology->node, ring, sizeof ring);
	kr_topology_free(topology);
	places[2].ring = 5; /* the node contradicts itself */
	assert_int_equal(kr_topology_new(4, places, NULL, &topology), 0);
	assert_memory_equal(topology->node, plain, sizeof plain);
	kr_topology_free(topology);
	places[2].ring = 2;
	places[3].ring = 0; /* two nodes at one place */
	assert_int_equal(kr_topology_new(4, places, NULL, &topology), 0);
	assert_memory_equal(topology->node, plain, sizeof plain);
	kr_topology_free(topology);
	places[3].ring = KR_NO_RING;
	assert_int_equal(kr_topology_new(4, places, NULL, &topology), 0);
	assert_memory_equal(topology->node, plain, sizeof plain);
	kr_topology_free(topology);
	assert_int_equal(kr_topology_new(0, places, NULL, &topology), -EINVAL);
}

/* The position of rank RANK's node, the ranks' mounts being those of NODES and RINGS ("": none). */
static uint32_t position(uint32_t ranks, const char *const *nodes, const char *const *rings, uint32_t rank)
{
	struct kr_ring_member all[RANKS_MAX] = {0}, own;
	for (uint32_t i = 0; i < ranks; i++) {
		strcpy(all[i].node, nodes[i]);
		strcpy(all[i].ring, rings[i]);
	}
	own = all[rank];
	return kr_ring_position(all, ranks, &own);
}

static void the_ring_is_in_natural_order_of_names_as_the_server_has_it(void **unused)
{
	const char *nodes[] = {"n10", "n9", "n10", "n2", "n2", "n11"}, *rings[] = {"r", "r", "r", "r", "r", "r"};
	const uint32_t expected[] = {2, 1, 2, 0, 0, 3};
	(void)unused;
	for (uint32_t rank = 0; rank < 6; rank++)
		assert_int_equal(position(6, nodes, rings, rank), expected[rank]);
	rings[4] = "another";
	for (uint32_t rank = 0; rank < 6; rank++)
		assert_int_equal(position(6, nodes, rings, rank), KR_NO_RING);
	rings[4] = "r";
	nodes[5] = "";
	for (uint32_t rank = 0; rank < 6; rank++)
		assert_int_equal(position(6, nodes, rings, rank), KR_NO_RING);
}

static void aggregators_go_round_the_nodes_whatever_the_placement(void **unused)
{
	struct kr_topology *block = regular(4, 3, true), *robin = regular(4, 3, false);
	struct kr_aggregators *a = aggregators_of(block, 6, "*:*"), *b = aggregators_of(robin, 6, "*:*");
	const uint32_t of_block[] = {0, 3, 6, 9, 1, 4}, of_robin[] = {0, 1, 2, 3, 4, 5};
	(void)unused;
	assert_int_equal(a->count, 6);
	assert_memory_equal(a->rank, of_block, sizeof of_block);
	assert_memory_equal(b->rank, of_robin, sizeof of_robin);
	assert_int_equal(a->node_max, 2);
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(a->index[a->rank[i]], i);
		assert_int_equal(a->local[i], i / 4);
	}
	assert_int_equal(a->index[2], KR_NO_AGGREGATOR);
	kr_aggregators_free(a);
	kr_aggregators_free(b);
	a = aggregators_of(block, 0, NULL); /* one per node */
	assert_int_equal(a->count, 4);
	kr_aggregators_free(a);
	a = aggregators_of(block, 100, "*:*");
	assert_int_equal(a->count, 12);
	kr_aggregators_free(a);
	kr_topology_free(block);
	kr_topology_free(robin);
}

static void the_configuration_list_chooses_nodes(void **unused)
{
	const struct kr_place places[] = {
		{0, KR_NO_RING}, {0, KR_NO_RING}, {2, KR_NO_RING}, {2, KR_NO_RING}, {4, KR_NO_RING}};
	const char *const names[] = {"alpha.example", "alpha.example", "beta", "beta", "gamma"};
	const char *const bad[] = {",", "a,", "a:", "a:x", ":2", "a:1:2", "a b", "*:99999999999", "a:-1"};
	struct kr_topology *topology;
	struct kr_aggregators *aggregators;
	(void)unused;
	assert_int_equal(kr_topology_new(5, places, names, &topology), 0);
	aggregators = aggregators_of(topology, 0, "beta:2, alpha");
	const uint32_t ranks[] = {0, 2, 3};
	assert_int_equal(aggregators->count, 3);
	assert_memory_equal(aggregators->rank, ranks, sizeof ranks);
	kr_aggregators_free(aggregators);
	aggregators = aggregators_of(topology, 0, "gamma:0,*:*");
	assert_int_equal(aggregators->count, 4);
	assert_int_equal(aggregators->index[4], KR_NO_AGGREGATOR);
	kr_aggregators_free(aggregators);
	aggregators = aggregators_of(topology, 0, "alpha.example:* , nobody:3");
	assert_int_equal(aggregators->count, 2);
	kr_aggregators_free(aggregators);
	assert_int_equal(kr_aggregators_new(topology, 0, "nobody:3", &aggregators), -ENOENT);
	assert_int_equal(kr_aggregators_new(topology, 0, "*:0", &aggregators), -ENOENT);
	for (size_t i = 0; i < KR_ARRAY_SIZE(bad); i++)
		assert_int_equal(kr_aggregators_new(topology, 0, bad[i], &aggregators), -EINVAL);
	kr_topology_free(topology);
}

/* ---- orders ---- */

/* The schedules step by step, as the head of send_order.h defines them. */
static uint64_t steps_per_node(
	enum kr_order order, const struct kr_topology *topology, const struct kr_aggregators *aggregators)
{
	return order == KR_ORDER_ND_SHIFT ? aggregators->node_max : KR_MAX(aggregators->node_max, topology->node_max);
}

static uint64_t step_count(
	enum kr_order order, const struct kr_topology *topology, const struct kr_aggregators *aggregators)
{
	if (order == KR_ORDER_RANK || order == KR_ORDER_PAIRWISE)
		return topology->ranks;
	return topology->nodes * steps_per_node(order, topology, aggregators);
}

/* The aggregator that is the INDEX-th of NODE, or none. */
static uint32_t aggregator_of(const struct kr_aggregators *aggregators, uint32_t node, uint64_t index)
{
	uint32_t start = aggregators->node_start[node];
	if (index >= aggregators->node_start[node + 1] - start)
		return KR_NO_AGGREGATOR;
	return aggregators->node_aggregators[start + index];
}

static uint32_t target_of(enum kr_order order, const struct kr_topology *topology,
	const struct kr_aggregators *aggregators, uint32_t rank, uint64_t step)
{
	uint64_t per_node = steps_per_node(order, topology, aggregators);
	uint32_t node = (uint32_t)((topology->node[rank] + step / per_node + 1) % topology->nodes);
	switch (order) {
	case KR_ORDER_RANK:
		return aggregators->index[step];
	case KR_ORDER_PAIRWISE:
		return aggregators->index[(rank + step + 1) % topology->ranks];
	case KR_ORDER_ND_SHIFT:
		return aggregator_of(aggregators, node, step % per_node);
	default:
		return aggregator_of(aggregators, node, (topology->local[rank] + step) % per_node);
	}
}

static void check_order(
	enum kr_order order, const struct kr_topology *topology, const struct kr_aggregators *aggregators)
{
	uint64_t steps = step_count(order, topology, aggregators);
	uint32_t(*pairs)[RANKS_MAX] = calloc(RANKS_MAX, sizeof(*pairs)); /* step + 1 of each rank and aggregator */
	uint32_t sends[RANKS_MAX], sources[RANKS_MAX];
	for (uint64_t step = 0; step < steps; step++) {
		uint32_t from_node[RANKS_MAX], from_rank[RANKS_MAX];
		memset(from_node, 0xff, sizeof from_node);
		memset(from_rank, 0xff, sizeof from_rank);
		for (uint32_t rank = 0; rank < topology->ranks; rank++) {
			uint32_t target = target_of(order, topology, aggregators, rank, step);
			if (target == KR_NO_AGGREGATOR)
				continue;
			assert_int_equal(pairs[rank][target], 0);
			pairs[rank][target] = (uint32_t)step + 1;
			uint32_t node = topology->node[aggregators->rank[target]];
			/* No node receives from two. */
			if (order >= KR_ORDER_ND_SHIFT) {
				assert_true(from_node[node] == UINT32_MAX || from_node[node] == topology->node[rank]);
				from_node[node] = topology->node[rank];
			}
			/* No aggregator receives from two. */
			if (order == KR_ORDER_ND_RANK_SHIFT || order == KR_ORDER_PAIRWISE)
				assert_int_equal(from_rank[target], UINT32_MAX);
			from_rank[target] = rank;
		}
	}
	for (uint32_t rank = 0; rank < topology->ranks; rank++) {
		assert_int_equal(kr_order_sends(order, topology, aggregators, rank, sends), 0);
		for (uint32_t i = 0; i < aggregators->count; i++) {
			assert_true(pairs[rank][i] > 0);
			assert_true(i == 0 || pairs[rank][sends[i]] > pairs[rank][sends[i - 1]]);
		}
	}
	for (uint32_t i = 0; i < aggregators->count; i++) {
		bool seen[RANKS_MAX] = {false};
		assert_int_equal(kr_order_receives(order, topology, aggregators, i, sources), 0);
		for (uint32_t k = 0; k < topology->ranks; k++) {
			assert_false(seen[sources[k]]);
			seen[sources[k]] = true;
			if (k > 0)
				assert_true(pairs[sources[k]][i] > pairs[sources[k - 1]][i] ||
					(pairs[sources[k]][i] == pairs[sources[k - 1]][i] &&
						sources[k] > sources[k - 1]));
		}
	}
	free(pairs);
}

static void check_orders(struct kr_topology *topology, uint32_t limit)
{
	struct kr_aggregators *aggregators = aggregators_of(topology, limit, "*:*");
	for (enum kr_order order = KR_ORDER_RANK; order <= KR_ORDER_ND_RANK_SHIFT; order++)
		check_order(order, topology, aggregators);
	kr_aggregators_free(aggregators);
	kr_topology_free(topology);
}

static void every_pair_meets_once_in_regular_placements(void **unused)
{
	(void)unused;
	for (uint32_t nodes = 1; nodes <= 6; nodes++)
		for (uint32_t per_node = 1; per_node <= 5; per_node++)
			for (uint32_t limit = 0; limit <= nodes * per_node; limit++) {
				check_orders(regular(nodes, per_node, true), limit);
				check_orders(regular(nodes, per_node, false), limit);
			}
}

static void every_pair_meets_once_in_irregular_placements(void **unused)
{
	(void)unused;
	for (unsigned seed = 0; seed < 2000; seed++) {
		uint64_t state = random_seed(seed);
		uint32_t ranks = 1 + (uint32_t)random_below(&state, RANKS_MAX),
			 nodes = 1 + (uint32_t)random_below(&state, 8);
		uint32_t node[RANKS_MAX];
		for (uint32_t i = 0; i < ranks; i++)
			node[i] = (uint32_t)random_below(&state, nodes) * 11;
		check_orders(topology_of(ranks, node), (uint32_t)random_below(&state, ranks + 1));
	}
}

/* 3 nodes x 2 ranks in blocks, every rank an aggregator: numbers 0, 1, 2 are ranks 0, 2, 4; 3, 4, 5 are ranks 1, 3, 5.
 */
static void the_orders_are_as_defined(void **unused)
{
	static const uint32_t expected[4][2][6] = {
		/* of rank 0, of rank 3: the targets' ranks */
		{{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}},
		{{1, 2, 3, 4, 5, 0}, {4, 5, 0, 1, 2, 3}},
		{{2, 3, 4, 5, 0, 1}, {4, 5, 0, 1, 2, 3}},
		{{2, 3, 4, 5, 0, 1}, {5, 4, 1, 0, 3, 2}},
	};
	struct kr_topology *topology = regular(3, 2, true);
	struct kr_aggregators *aggregators = aggregators_of(topology, 0, "*:*");
	uint32_t sends[6];
	(void)unused;
	for (enum kr_order order = KR_ORDER_RANK; order <= KR_ORDER_ND_RANK_SHIFT; order++)
		for (int who = 0; who < 2; who++) {
			assert_int_equal(kr_order_sends(order, topology, aggregators, who ? 3 : 0, sends), 0);
			for (int i = 0; i < 6; i++)
				assert_int_equal(aggregators->rank[sends[i]], expected[order][who][i]);
		}
	kr_aggregators_free(aggregators);
	kr_topology_free(topology);
}

static void names_of_orders_are_read_back(void **unused)
{
	enum kr_order order;
	(void)unused;
	for (enum kr_order i = KR_ORDER_RANK; i <= KR_ORDER_ND_RANK_SHIFT; i++)
		assert_true(kr_order_parse(kr_order_name(i), &order) && order == i);
	assert_false(kr_order_parse("ring", &order));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_are_in_the_order_of_their_lowest_ranks),
		cmocka_unit_test(nodes_are_in_ring_order_where_all_know_it),
		cmocka_unit_test(the_ring_is_in_natural_order_of_names_as_the_server_has_it),
		cmocka_unit_test(aggregators_go_round_the_nodes_whatever_the_placement),
		cmocka_unit_test(the_configuration_list_chooses_nodes),
		cmocka_unit_test(every_pair_meets_once_in_regular_placements),
		cmocka_unit_test(every_pair_meets_once_in_irregular_placements),
		cmocka_unit_test(the_orders_are_as_defined),
		cmocka_unit_test(names_of_orders_are_read_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
