/* Lapses: when a node lost its leases, so that the server can tell its late bytes from those written under leases.
 *
 * A session that ends leaves a lapse for its node: the server's epoch at that moment. The node's next session takes it
 * over, and RECLAIM compares (recovery/late.h). Of too many lapses the oldest go. A node without a lapse counts as lost
 * before this server started. Loop thread; PURE. */
#ifndef KR_SERVER_LAPSES_H
#define KR_SERVER_LAPSES_H

#include "common/auth/key.h"
#include "common/base/list.h"
#include "common/base/table.h"

enum { KR_LAPSES_MAX = 65536 };

enum kr_lapse_kind {
	KR_LAPSE_NONE,    /* no other node has had its leases */
	KR_LAPSE_KNOWN,   /* since `epoch` */
	KR_LAPSE_UNKNOWN, /* before this server started */
};
struct kr_lapse {
	enum kr_lapse_kind kind;
	uint64_t epoch;            /* kr_file_table.epoch */
	struct kr_key_owner owner; /* of the node's key, then and now; kind 0: any */
};

struct kr_lapses {
	struct kr_table table;
	struct kr_list order; /* oldest first */
};

void kr_lapses_init(struct kr_lapses *lapses);
void kr_lapses_fini(struct kr_lapses *lapses);
/* Replaces the node's lapse. */
void kr_lapses_note(struct kr_lapses *lapses, const uint8_t node_id[16], const struct kr_lapse *lapse);
/* False: the node has no lapse. */
bool kr_lapses_find(const struct kr_lapses *lapses, const uint8_t node_id[16], struct kr_lapse *ret_lapse);

#endif
