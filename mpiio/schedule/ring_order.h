/* The order of the nodes in the mount's ring, from their names: the server's order (server/flush/round.h), "n2" before
 * "n10". Pure. */
#ifndef KR_MPIIO_RING_ORDER_H
#define KR_MPIIO_RING_ORDER_H

#include <stdint.h>

#include "common/kairan_ioctl.h"

/* What a rank tells of its mount; of bytes only, NUL behind each name.  An empty NODE: it is on none. */
struct kr_ring_place {
	char node[KR_MOUNT_INFO_NAME], ring[KR_MOUNT_INFO_NAME];
};

/* INFO NULL: on no kairan mount. */
void kr_ring_place_init(struct kr_ring_place *place, const struct kr_mount_info *info);
/* The position of OWN's node among the nodes of ALL the ranks (COUNT, sorted here), from 0; KR_NO_RING (topology.h)
 * when some rank is on no kairan mount or not all are in one ring. */
uint32_t kr_ring_position(struct kr_ring_place *all, uint32_t count, const struct kr_ring_place *own);

#endif
