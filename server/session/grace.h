/* The grace period after a start: nodes of the former instance reclaim what they held before any other client may act.
 * It ends when all of them have sent RECLAIM_DONE. Or it ends after the lease time, when no awaited node is reclaiming,
 * and at the latest after KR_GRACE_LEASES lease times. But it does not end before what the former instance applied is
 * on the disk (recovery/grace_period.h).
 *
 * PURE but for the list: requests that wait for the end are parked in `waiting`. */
#ifndef KR_SERVER_GRACE_H
#define KR_SERVER_GRACE_H

#include "common/auth/key.h"
#include "common/base/list.h"
#include "common/base/table.h"

enum { KR_GRACE_LEASES = 15 };

struct kr_grace {
	bool active;
	uint64_t ends_ns;        /* by kr_clock_ns */
	uint64_t latest_ns;      /* the limit, even while nodes reclaim */
	bool unsynced;           /* what the former instance applied may not be on the disk yet ... */
	bool syncing;            /* ... a sync is under way */
	struct kr_table awaited; /* node ids that have not finished */
	struct kr_list waiting;  /* kr_request.wait */
};

void kr_grace_init(struct kr_grace *grace);
void kr_grace_fini(struct kr_grace *grace);
/* Awaits a node of the former instance. OWNER: of its key (kind 0: unknown). */
void kr_grace_await(struct kr_grace *grace, const uint8_t node_id[16], const struct kr_key_owner *owner);
/* Begins if any node is awaited, or UNSYNCED; returns whether. */
bool kr_grace_start(struct kr_grace *grace, uint64_t now_ns, uint32_t lease_ms, bool unsynced);
/* A node has reclaimed all, or will not come back. True if that was the last: the caller ends the period. */
bool kr_grace_node_done(struct kr_grace *grace, const uint8_t node_id[16]);
/* Whether all nodes have finished, or the time is over. RECLAIMING: an awaited node is at work, which extends the
 * period up to `latest_ns`. */
bool kr_grace_due(const struct kr_grace *grace, uint64_t now_ns, bool reclaiming);
/* Whether the period lasts and the node has not finished. *RET_OWNER (may be NULL): of its key. */
bool kr_grace_awaits(const struct kr_grace *grace, const uint8_t node_id[16], struct kr_key_owner *ret_owner);
size_t kr_grace_awaited(const struct kr_grace *grace);

#endif
