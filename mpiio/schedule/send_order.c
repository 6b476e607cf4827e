/* Schedules of sends and receives; see send_order.h for their definitions. */
#include "mpiio/schedule/send_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

static const char *const names[] = {"rank", "pairwise", "nd_shift", "nd_rank_shift"};

bool kr_order_parse(const char *name, enum kr_order *ret_order)
{
	for (size_t i = 0; i < KR_ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0) {
			*ret_order = (enum kr_order)i;
			return true;
		}
	return false;
}

const char *kr_order_name(enum kr_order order)
{
	return names[order];
}

/* How many steps the nodes' distance stays the same; 1 where nodes do not count. */
static uint64_t steps_per_node(
	enum kr_order order, const struct kr_topology *topology, const struct kr_aggregators *aggregators)
{
	if (order == KR_ORDER_ND_SHIFT)
		return aggregators->node_max;
	return order == KR_ORDER_ND_RANK_SHIFT ? KR_MAX(aggregators->node_max, topology->node_max) : 1;
}

/* How far above FROM, cyclically below COUNT, TO lies: 0 for the next, COUNT - 1 for FROM itself. */
static uint64_t distance(uint64_t from, uint64_t to, uint64_t count)
{
	return (to + 2 * count - from - 1) % count;
}

/* The step in which RANK sends to AGGREGATOR. */
static uint64_t step_of(enum kr_order order, const struct kr_topology *topology,
	const struct kr_aggregators *aggregators, uint32_t rank, uint32_t aggregator)
{
	uint32_t to = aggregators->rank[aggregator];
	uint64_t inner, per_node = steps_per_node(order, topology, aggregators);
	switch (order) {
	case KR_ORDER_RANK:
		return to;
	case KR_ORDER_PAIRWISE:
		return distance(rank, to, topology->ranks);
	case KR_ORDER_ND_SHIFT:
		inner = aggregators->local[aggregator];
		break;
	default:
		inner = (aggregators->local[aggregator] + per_node - topology->local[rank]) % per_node;
		break;
	}
	return distance(topology->node[rank], topology->node[to], topology->nodes) * per_node + inner;
}

/* The step of an aggregator or rank. */
struct turn {
	uint64_t step;
	uint32_t index;
};

static int compare_turns(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void sort_turns(struct turn *turns, uint32_t count, uint32_t *ret_sorted)
{
	qsort(turns, count, sizeof(*turns), compare_turns);
	for (uint32_t i = 0; i < count; i++)
		ret_sorted[i] = turns[i].index;
	free(turns);
}

int kr_order_sends(enum kr_order order, const struct kr_topology *topology, const struct kr_aggregators *aggregators,
	uint32_t rank, uint32_t *ret_targets)
{
	struct turn *turns = reallocarray(NULL, aggregators->count, sizeof(*turns));
	if (!turns)
		return -ENOMEM;
	for (uint32_t i = 0; i < aggregators->count; i++)
		turns[i] = (struct turn){step_of(order, topology, aggregators, rank, i), i};
	sort_turns(turns, aggregators->count, ret_targets);
	return 0;
}

int kr_order_receives(enum kr_order order, const struct kr_topology *topology, const struct kr_aggregators *aggregators,
	uint32_t aggregator, uint32_t *ret_sources)
{
	struct turn *turns = reallocarray(NULL, topology->ranks, sizeof(*turns));
	if (!turns)
		return -ENOMEM;
	for (uint32_t i = 0; i < topology->ranks; i++)
		turns[i] = (struct turn){step_of(order, topology, aggregators, i, aggregator), i};
	sort_turns(turns, topology->ranks, ret_sources);
	return 0;
}
