/* Lapses: when a node lost its leases, so that what it brings later can be told from what others have changed since.
 *
 * A session that ends leaves a lapse behind for its node: the server's epoch at that moment.  The node's next session
 * takes it over; RECLAIM compares (late.h).  Bounded: of too many the oldest go, and a node of which nothing is known
 * is taken for one that was lost before this server started.  Loop thread; PURE.
 */
#ifndef KR_SERVER_LAPSES_H
#define KR_SERVER_LAPSES_H

#include "common/auth/key.h"
#include "common/base/list.h"
#include "common/base/table.h"

enum { KR_LAPSES_MAX = 65536 };

enum kr_lapse_kind {
	KR_LAPSE_NONE,    /* its leases were never anybody else's */
	KR_LAPSE_KNOWN,   /* since `epoch` */
	KR_LAPSE_UNKNOWN, /* at some time before this server started */
};
struct kr_lapse {
	enum kr_lapse_kind kind;
	uint64_t epoch; /* kr_server.epoch */
	struct kr_key_owner
		owner; /* of the key that the node came with before, and comes with again; kind 0: whoever */
};

struct kr_lapses {
	struct kr_table table;
	struct kr_list order; /* oldest first */
};

void kr_lapses_init(struct kr_lapses *lapses);
void kr_lapses_fini(struct kr_lapses *lapses);
/* Replaces what was noted of the node. */
void kr_lapses_note(struct kr_lapses *lapses, const uint8_t node_id[16], const struct kr_lapse *lapse);
/* False: nothing is noted. */
bool kr_lapses_find(const struct kr_lapses *lapses, const uint8_t node_id[16], struct kr_lapse *ret_lapse);

#endif
