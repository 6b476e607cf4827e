/* Which rank runs on which node, and which ranks are aggregators.  Pure: made from what every rank told (topology_mpi.h
 * gathers it), so every rank computes the same; never changes afterwards, any thread may read it.
 *
 * Nodes are numbered 0... in ring order where all nodes know their position in the ring, otherwise in the order of
 * their lowest ranks.
 */
#ifndef KR_MPIIO_TOPOLOGY_H
#define KR_MPIIO_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KR_NO_RANK UINT32_MAX
#define KR_NO_RING UINT32_MAX
#define KR_NO_AGGREGATOR UINT32_MAX

/* What a rank knows of its node. */
struct kr_place {
	uint32_t node; /* any number that the ranks of one node share and others do not: the node's lowest rank */
	uint32_t ring; /* the node's position in the mount's ring, or KR_NO_RING */
};

struct kr_topology {
	uint32_t ranks, nodes;
	uint32_t node_max;    /* the most ranks on a node */
	uint32_t *node;       /* of each rank */
	uint32_t *local;      /* of each rank: its index among its node's ranks */
	uint32_t *node_start; /* node n's ranks, ascending: node_ranks[node_start[n] ... node_start[n + 1]) */
	uint32_t *node_ranks;
	char **node_name; /* of each node; NULL without names */
};

/* PLACES has one entry per rank; NAMES (NULL, or a host name per rank) is copied.  Owned; 0, -EINVAL (no ranks) or
 * -ENOMEM.  If some ranks of a node give another ring position than its lowest rank, or a node gives none, or two
 * nodes give the same, no ring order is used. */
int kr_topology_new(
	uint32_t ranks, const struct kr_place *places, const char *const *names, struct kr_topology **ret_topology);
void kr_topology_free(struct kr_topology *topology);
static inline uint32_t kr_topology_node_size(const struct kr_topology *topology, uint32_t node)
{
	return topology->node_start[node + 1] - topology->node_start[node];
}

/* ---- aggregators ---- */

/* Aggregators are numbered 0... in the order in which they take stripes: round-robin over the nodes, the i-th of a node
 * being its i-th rank, whatever the placement of ranks.  Nodes with none left are passed over. */
struct kr_aggregators {
	uint32_t count;    /* > 0 */
	uint32_t node_max; /* the most on a node */
	uint32_t *rank;    /* of each aggregator */
	uint32_t *index;   /* of each rank: its number as aggregator, or KR_NO_AGGREGATOR */
	uint32_t *
		node_start; /* node n's aggregators, ascending: node_aggregators[node_start[n] ... node_start[n + 1]) */
	uint32_t *node_aggregators;
	uint32_t *local; /* of each aggregator: its index among its node's aggregators */
};

/* At most LIMIT aggregators (0: as many as CONFIG_LIST allows; hint cb_nodes), chosen among what CONFIG_LIST allows:
 * ROMIO's cb_config_list, "host:k,host2,*:*": the first entry that matches a node's name says how many of its ranks
 * may be aggregators (no ":k" means 1, "*" all, 0 none), nodes that match none have none; NULL or "" is "*:1".  Names
 * are compared with the host name whole and up to its first dot; without names only "*" matches.  Owned; 0, -ENOMEM,
 * -EINVAL (the list is malformed) or -ENOENT (it leaves no aggregator). */
int kr_aggregators_new(const struct kr_topology *topology, uint32_t limit, const char *config_list,
	struct kr_aggregators **ret_aggregators);
void kr_aggregators_free(struct kr_aggregators *aggregators);

#endif
