/* Which ranks are aggregators.  Pure: every rank computes the same from the same topology. */
#ifndef KR_MPIIO_AGGREGATORS_H
#define KR_MPIIO_AGGREGATORS_H

#include "mpiio/schedule/topology.h"

#define KR_NO_AGGREGATOR UINT32_MAX

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
