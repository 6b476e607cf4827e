/* Which rank runs on which node.  Pure: topology_mpi.h gathers the ranks' reports, and every rank computes the same
 * from them.  A topology never changes, so any thread may read it.
 *
 * Nodes are numbered 0... in ring order where all nodes know their position in the ring, otherwise in the order of
 * their lowest ranks.
 */
#ifndef KR_MPIIO_TOPOLOGY_H
#define KR_MPIIO_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/kairan_ioctl.h"

#define KR_NO_RANK UINT32_MAX
#define KR_NO_RING UINT32_MAX

/* The mount under a rank's file: the names of its node and of its ring, padded with NUL.  No node: no kairan mount. */
struct kr_ring_member {
	char node[KR_MOUNT_INFO_NAME], ring[KR_MOUNT_INFO_NAME];
};
/* The position of OWN's node among the nodes of ALL ranks (COUNT of them, sorted here), from 0.  KR_NO_RING: some rank
 * has no kairan mount, or the ranks are in several rings. */
uint32_t kr_ring_position(struct kr_ring_member *all, uint32_t count, const struct kr_ring_member *own);

/* A rank's report of its node. */
struct kr_place {
	uint32_t node; /* any number that is common to the ranks of a node, and to them only: its lowest rank */
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
 * -ENOMEM.  Ring order needs a position of every node, equal for all its ranks and different from all other nodes'. */
int kr_topology_new(
	uint32_t ranks, const struct kr_place *places, const char *const *names, struct kr_topology **ret_topology);
void kr_topology_free(struct kr_topology *topology);
static inline uint32_t kr_topology_node_size(const struct kr_topology *topology, uint32_t node)
{
	return topology->node_start[node + 1] - topology->node_start[node];
}

#endif
