/* Which nodes may have notes (common/rpc/attr_cache.h), by slots: a pure state machine.  Times come in as milliseconds
 * of a clock that does not go back; no sessions, no sockets.
 *
 * A bucket stands for all files that hash to it, so the table has a constant size, needs no word of what a node drops by
 * itself, and is wrong on the safe side only: some are told to forget what they never had.  Nodes share bits for the
 * same reason. Invariants:
 *  - while a change is under way in a bucket nobody else gets a grant there, and none is given for what was looked up
 *    before the latest change ended: so what a node has noted is what was true after it;
 *  - a bit goes only when its nodes have answered that they forgot, with a change under way from before they were
 *    asked, or when the grant is so old that they have forgotten by themselves.
 */
#ifndef KR_SERVER_INVALIDATION_TABLE_H
#define KR_SERVER_INVALIDATION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KR_ATTR_CACHE_DEFER_MS = 500 };

struct kr_attr_cache_bucket {
	uint64_t holders;    /* bits of nodes that may have notes */
	uint64_t notified;   /* of these: told to forget since their last grant, without an answer */
	uint64_t changed;    /* the moment when the latest change ended */
	uint64_t granted_ms; /* the latest grant */
	uint64_t
		deferred_ms; /* others had to be asked: until then only `changer` gets grants, or they would be asked each
			     time */
	uint64_t changer;
	uint32_t changing; /* changes under way */
};

struct kr_invalidation_table {
	struct kr_attr_cache_bucket *buckets;
	uint64_t moment;  /* ascends with the end of every change */
	uint64_t changed; /* ... of all slots at once */
};

void kr_invalidation_table_init(struct kr_invalidation_table *table);
void kr_invalidation_table_fini(struct kr_invalidation_table *table);

static inline uint64_t kr_attr_cache_node_bit(uint32_t node)
{
	return UINT64_C(1) << (node % 64);
}

/* A change begins. Returns the bits of those who may have notes at NOW_MS. */
uint64_t kr_invalidation_table_begin(struct kr_invalidation_table *table, uint32_t bucket, uint64_t now_ms);
/* During a change: all nodes of BITS have been asked since it began, and have answered (or it is too long ago:
 * KR_ATTR_CACHE_GRANT_MS). */
void kr_invalidation_table_answered(struct kr_invalidation_table *table, uint32_t bucket, uint64_t bits);
/* During a change of NODE's: others had to be asked for it. */
void kr_invalidation_table_defer(struct kr_invalidation_table *table, uint32_t bucket, uint32_t node, uint64_t now_ms);
/* Which nodes' bits have to be told without waiting: those with a grant since they were told the last time; they count
 * as told. */
uint64_t kr_invalidation_table_notify(struct kr_invalidation_table *table, uint32_t bucket, uint64_t bits);
void kr_invalidation_table_end(struct kr_invalidation_table *table, uint32_t bucket);
/* Anything may have changed. */
void kr_invalidation_table_end_all(struct kr_invalidation_table *table);
/* Whether NODE may note now what was looked up since moment SINCE; OWN changes of the same request are under way there.
 */
bool kr_invalidation_table_grant(struct kr_invalidation_table *table, uint32_t bucket, uint32_t node, uint64_t since,
	uint32_t own, uint64_t now_ms);
/* Whether any node but NODE may have notes. */
bool kr_invalidation_table_others_cache(
	struct kr_invalidation_table *table, uint32_t bucket, uint32_t node, uint64_t now_ms);

#endif
