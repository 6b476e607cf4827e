/* Which ranks are aggregators.  Pure: every rank computes the same from the same topology. */
#ifndef KR_MPIIO_AGGREGATORS_H
#define KR_MPIIO_AGGREGATORS_H

#include "mpiio/schedule/topology.h"

#define KR_NO_AGGREGATOR UINT32_MAX

/* Aggregators are numbered 0... in the order in which they take stripes: round-robin over the nodes, the i-th of a node
 * being its i-th rank, whatever the placement of ranks.  A node without further ranks is passed over. */
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

/* At most LIMIT aggregators (hint cb_nodes; 0: no limit), chosen among those that CONFIG_LIST allows: ROMIO's
 * cb_config_list,
 *
 *   list  = entry {"," entry}        entry = host [":" count]        host = name | "*"        count = number | "*"
 *
 * with spaces allowed around the signs.  The first entry that matches a node's name says how many of its ranks may be
 * aggregators (no count means 1, "*" all); a node without an entry has none.  NULL or "" is "*:1".  Names match the
 * host name whole or up to its first dot; without names only "*" matches.
 * Owned.  0, -ENOMEM, -EINVAL (the list is malformed) or -ENOENT (it leaves no aggregator).
 */
int kr_aggregators_new(const struct kr_topology *topology, uint32_t limit, const char *config_list,
	struct kr_aggregators **ret_aggregators);
void kr_aggregators_free(struct kr_aggregators *aggregators);

#endif
