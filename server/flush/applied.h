/* What of each node's journal this instance has applied to which file: the answer to a RECLAIM.  Bounded: the least
 * recently used entry goes, and "nothing known" is the answer then (the node sends its bytes again).  Loop thread;
 * PURE.
 */
#ifndef KR_SERVER_APPLIED_H
#define KR_SERVER_APPLIED_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"

enum { KR_APPLIED_MAX = 65536 };

struct kr_applied {
	struct kr_table table;
	struct kr_list uses; /* least recently used first */
	bool incomplete;     /* something has been forgotten or lost */
};

void kr_applied_init(struct kr_applied *applied);
void kr_applied_fini(struct kr_applied *applied);
/* All of the journal NODE_ID up to SEQ is applied to FILE. */
void kr_applied_note(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16], uint64_t seq);
/* Rounds brought bytes of the journal NODE_ID up to SEQ to FILE, noted as applied or not: a round can be broken off,
 * its session can have ended, or a sync failed during it. */
void kr_applied_reach(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16], uint64_t seq);
uint64_t kr_applied_reached(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16]);
/* The number of the latest note; 0: nothing known. */
uint64_t kr_applied_seq(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16]);
/* A sync of FILE failed: nothing is known of it any more, but what kr_applied_reached tells. */
void kr_applied_lose(struct kr_applied *applied, const struct kr_fid *file);

#endif
