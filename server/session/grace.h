/* The grace period after a start of the server: nodes that had sessions before claim again what they hold, before
 * anybody else may act.  It ends when all of them have said RECLAIM_DONE, or when the lease time has passed and none of
 * them is reclaiming just then (at the latest after KR_GRACE_LEASES lease times).
 *
 * PURE but for the list: who is awaited, and when it ends.  Requests that wait for its end are parked in `waiting`.
 */
#ifndef KR_SERVER_GRACE_H
#define KR_SERVER_GRACE_H

#include "common/auth/key.h"
#include "common/base/list.h"
#include "common/base/table.h"

enum { KR_GRACE_LEASES = 15 };

struct kr_grace {
	bool active;
	uint64_t ends_ns;        /* by kr_clock_ns */
	uint64_t latest_ns;      /* it ends then, whoever still reclaims */
	struct kr_table awaited; /* node ids that have not finished */
	struct kr_list waiting;  /* kr_request.wait */
};

void kr_grace_init(struct kr_grace *grace);
void kr_grace_fini(struct kr_grace *grace);
/* One node of the previous instance: before the start, or when it has to finish once more. OWNER: of its key (kind 0:
 * not known). */
void kr_grace_await(struct kr_grace *grace, const uint8_t node_id[16], const struct kr_key_owner *owner);
/* Begins if anybody is awaited; returns whether. */
bool kr_grace_start(struct kr_grace *grace, uint64_t now_ns, uint32_t lease_ms);
/* A node has reclaimed all, or is known to be gone for good. Returns true when that was the last: the caller ends it.
 */
bool kr_grace_node_done(struct kr_grace *grace, const uint8_t node_id[16]);
/* Whether the time is over. RECLAIMING: an awaited node is at work (much to reclaim or to replay): a few times longer.
 */
bool kr_grace_due(const struct kr_grace *grace, uint64_t now_ns, bool reclaiming);
/* The node is one that may claim what it held: the period lasts, and it has not finished. *RET_OWNER (may be NULL): of
 * its key. */
bool kr_grace_awaits(const struct kr_grace *grace, const uint8_t node_id[16], struct kr_key_owner *ret_owner);
/* How many are still awaited. */
size_t kr_grace_awaited(const struct kr_grace *grace);

#endif
