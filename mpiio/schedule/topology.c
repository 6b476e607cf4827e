/* Which rank runs on which node; see topology.h. */
#include "mpiio/schedule/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/ring_order.h"
#include "common/base/util.h"

static int compare_members(const void *a, const void *b)
{
	const struct kr_ring_member *x = a, *y = b;
	return kr_ring_order(x->node, 0, y->node, 0);
}

uint32_t kr_ring_position(struct kr_ring_member *all, uint32_t count, const struct kr_ring_member *own)
{
	uint32_t before = 0;

	for (uint32_t i = 0; i < count; i++)
		if (all[i].node[0] == '\0' || strcmp(all[i].ring, own->ring) != 0)
			return KR_NO_RING;
	qsort(all, count, sizeof(*all), compare_members);
	for (uint32_t i = 0; compare_members(&all[i], own) != 0; i++) /* counts each name at its last entry */
		before += compare_members(&all[i], &all[i + 1]) != 0;
	return before;
}

/* A node during the numbering. */
struct found {
	uint32_t id, first, ring; /* as in kr_place; its lowest rank */
};

static int compare_ids(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int compare_first(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int compare_ring(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	return x->ring < y->ring ? -1 : x->ring > y->ring;
}

/* FOUND has an entry per rank; the nodes come to its front, in their final order.  Returns their number. */
static uint32_t order_nodes(struct found *found, uint32_t ranks)
{
	uint32_t nodes = 0;
	bool ring = true;
	qsort(found, ranks, sizeof(*found), compare_ids);
	for (uint32_t i = 0; i < ranks; i++) {
		if (nodes > 0 && found[nodes - 1].id == found[i].id)
			ring = ring && found[nodes - 1].ring == found[i].ring;
		else
			found[nodes++] = found[i];
	}
	qsort(found, nodes, sizeof(*found), compare_ring);
	for (uint32_t i = 0; i < nodes; i++)
		ring = ring && found[i].ring != KR_NO_RING && (i == 0 || found[i].ring != found[i - 1].ring);
	if (!ring)
		qsort(found, nodes, sizeof(*found), compare_first);
	return nodes;
}

/* Finds each rank's node by its id.  The first NODES of FOUND are in the nodes' order. */
static void number_ranks(struct kr_topology *topology, const struct kr_place *places, struct found *found)
{
	for (uint32_t i = 0; i < topology->nodes; i++)
		found[i].ring = i;
	qsort(found, topology->nodes, sizeof(*found), compare_ids);
	for (uint32_t rank = 0; rank < topology->ranks; rank++) {
		uint32_t low = 0, high = topology->nodes;
		while (high - low > 1) {
			uint32_t middle = low + (high - low) / 2;
			if (found[middle].id <= places[rank].node)
				low = middle;
			else
				high = middle;
		}
		topology->node[rank] = found[low].ring;
		topology->node_start[found[low].ring + 1]++;
	}
}

static int copy_names(struct kr_topology *topology, const char *const *names)
{
	topology->node_name = calloc(topology->nodes, sizeof(char *));
	if (!topology->node_name)
		return -ENOMEM;
	for (uint32_t node = 0; node < topology->nodes; node++) {
		topology->node_name[node] = strdup(names[topology->node_ranks[topology->node_start[node]]]);
		if (!topology->node_name[node])
			return -ENOMEM;
	}
	return 0;
}

static int fill(
	struct kr_topology *topology, const struct kr_place *places, struct found *found, const char *const *names)
{
	topology->node = calloc(topology->ranks, sizeof(uint32_t));
	topology->local = calloc(topology->ranks, sizeof(uint32_t));
	topology->node_ranks = calloc(topology->ranks, sizeof(uint32_t));
	topology->node_start = calloc((size_t)topology->nodes + 1, sizeof(uint32_t));
	if (!topology->node || !topology->local || !topology->node_ranks || !topology->node_start)
		return -ENOMEM;
	number_ranks(topology, places, found);
	for (uint32_t node = 0; node < topology->nodes; node++) {
		topology->node_max = KR_MAX(topology->node_max, topology->node_start[node + 1]);
		topology->node_start[node + 1] += topology->node_start[node];
	}
	for (uint32_t rank = 0; rank < topology->ranks; rank++) {
		uint32_t *start = &topology->node_start[topology->node[rank]];
		topology->node_ranks[(*start)++] = rank;
	}
	/* Each start has moved to the next node's. */
	memmove(topology->node_start + 1, topology->node_start, topology->nodes * sizeof(uint32_t));
	topology->node_start[0] = 0;
	for (uint32_t i = 0; i < topology->ranks; i++) {
		uint32_t rank = topology->node_ranks[i];
		topology->local[rank] = i - topology->node_start[topology->node[rank]];
	}
	return names ? copy_names(topology, names) : 0;
}

int kr_topology_new(
	uint32_t ranks, const struct kr_place *places, const char *const *names, struct kr_topology **ret_topology)
{
	struct kr_topology *topology;
	struct found *found;
	int error = -ENOMEM;
	if (ranks == 0 || ranks >= KR_NO_RANK)
		return -EINVAL;
	topology = calloc(1, sizeof(*topology));
	found = reallocarray(NULL, ranks, sizeof(*found));
	if (topology && found) {
		for (uint32_t i = 0; i < ranks; i++)
			found[i] = (struct found){places[i].node, i, places[i].ring};
		topology->ranks = ranks;
		topology->nodes = order_nodes(found, ranks);
		error = fill(topology, places, found, names);
	}
	free(found);
	if (error < 0) {
		kr_topology_free(topology);
		return error;
	}
	*ret_topology = topology;
	return 0;
}

void kr_topology_free(struct kr_topology *topology)
{
	if (!topology)
		return;
	for (uint32_t node = 0; topology->node_name && node < topology->nodes; node++)
		free(topology->node_name[node]);
	free(topology->node_name);
	free(topology->node);
	free(topology->local);
	free(topology->node_start);
	free(topology->node_ranks);
	free(topology);
}
