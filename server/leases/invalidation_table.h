/* Which nodes may cache attributes (common/rpc/attr_cache.h), by bucket: a pure state machine.  Times come in as
 * milliseconds of a monotonic clock; no sessions, no sockets.
 *
 * A bucket stands for all files that hash to the bucket, so the table has a constant size.  A node need not report
 * what its cache drops.  The table errs on the safe side: some nodes get an INVALIDATE for what they never cached.
 * Nodes share bits for the same reason.  Invariants:
 *  - While a change is under way in a bucket, no other node gets a grant there.
 *  - No node gets a grant for what the server looked up before the latest change ended.  So a cache holds what was
 *    true after that change.
 *  - A bit is cleared when its nodes have answered an INVALIDATE that the server sent during a change.
 *  - A bit is also cleared when the grant is so old that the caches have dropped the entries by themselves.
 */
#ifndef KR_SERVER_INVALIDATION_TABLE_H
#define KR_SERVER_INVALIDATION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KR_ATTR_CACHE_DEFER_MS = 500 };

struct kr_attr_cache_bucket {
	uint64_t holders;     /* bits of nodes that may cache attributes */
	uint64_t notified;    /* of these: sent an INVALIDATE since their last grant, not answered */
	uint64_t changed;     /* the moment when the latest change ended */
	uint64_t granted_ms;  /* time of the latest grant */
	uint64_t deferred_ms; /* until then only `changer` gets grants: each change would ask again */
	uint64_t changer;
	uint32_t changing; /* changes under way */
};

struct kr_invalidation_table {
	struct kr_attr_cache_bucket *buckets;
	uint64_t moment;  /* ascends with the end of every change */
	uint64_t changed; /* ... of all buckets at once */
};

void kr_invalidation_table_init(struct kr_invalidation_table *table);
void kr_invalidation_table_fini(struct kr_invalidation_table *table);

static inline uint64_t kr_attr_cache_node_bit(uint32_t node)
{
	return UINT64_C(1) << (node % 64);
}

/* A change begins.  Returns the bits of the nodes that may cache the bucket at NOW_MS. */
uint64_t kr_invalidation_table_begin(struct kr_invalidation_table *table, uint32_t bucket, uint64_t now_ms);
/* During a change: all nodes of BITS have answered the INVALIDATE of this change, or lost their sessions. */
void kr_invalidation_table_answered(struct kr_invalidation_table *table, uint32_t bucket, uint64_t bits);
/* During a change by NODE: other nodes had to be asked for the change. */
void kr_invalidation_table_defer(struct kr_invalidation_table *table, uint32_t bucket, uint32_t node, uint64_t now_ms);
/* Returns the nodes of BITS that must get an INVALIDATE without a wait: those with a grant since their last one. */
uint64_t kr_invalidation_table_notify(struct kr_invalidation_table *table, uint32_t bucket, uint64_t bits);
void kr_invalidation_table_end(struct kr_invalidation_table *table, uint32_t bucket);
/* Anything may have changed. */
void kr_invalidation_table_end_all(struct kr_invalidation_table *table);
/* Whether NODE may cache what the server has looked up since moment SINCE.  OWN changes of the same request are under
 * way. */
bool kr_invalidation_table_grant(struct kr_invalidation_table *table, uint32_t bucket, uint32_t node, uint64_t since,
	uint32_t own, uint64_t now_ms);
/* The bits of the nodes that may cache the bucket. */
uint64_t kr_invalidation_table_holders(struct kr_invalidation_table *table, uint32_t bucket, uint64_t now_ms);

#endif
