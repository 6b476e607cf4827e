/* An intrusive hash table: chains of links that lie inside the elements.  The table grows and shrinks with their
 * number.  Not thread-safe.  The caller hashes and compares, so one table type serves fids, ids and names. */
#ifndef KR_COMMON_TABLE_H
#define KR_COMMON_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/types.h"
#include "common/base/util.h"

struct kr_table_link {
	struct kr_table_link *next;
	uint64_t hash;
};

struct kr_table {
	struct kr_table_link **buckets;
	size_t bucket_count; /* a power of two, or 0 before the first insertion */
	size_t count;
};

/* Where a walk through all elements is. */
struct kr_table_walk {
	struct kr_table_link *next;
	size_t bucket; /* comes after the chain of NEXT */
};

void kr_table_init(struct kr_table *table);
/* Frees the buckets; the elements are the caller's. */
void kr_table_fini(struct kr_table *table);
/* The same, and frees the elements, allocations in which the link lies at OFFSET.  The table may be used again. */
void kr_table_free_all(struct kr_table *table, size_t offset);
/* If memory is out the chains just get longer; only the first bucket array aborts the process. */
void kr_table_insert(struct kr_table *table, struct kr_table_link *link, uint64_t hash);
void kr_table_remove(struct kr_table *table, struct kr_table_link *link);
/* The walk's next element, in which the link lies at OFFSET; NULL: all have been seen. */
void *kr_table_walk_next(const struct kr_table *table, struct kr_table_walk *walk, size_t offset);
/* Goes through all elements, in any order.  MEMBER is the link in *ITEM.  The body may remove and free ITEM, but no
 * other element, and it may leave the loop.  If it inserts an element, it must leave the loop.  When all have been
 * seen, ITEM is NULL. */
#define KR_TABLE_FOR_EACH(item, table, member) \
	for (struct kr_table_walk KR_CONCAT(kr_walk_, __LINE__) = {0}; \
		(item = kr_table_walk_next( \
			 table, &KR_CONCAT(kr_walk_, __LINE__), offsetof(__typeof__(*item), member)));)

/* The element of the first link with HASH, from LINK on.  The link lies in it at OFFSET.  NULL: there is none. */
static inline void *kr_table_element_of(const struct kr_table_link *link, uint64_t hash, size_t offset)
{
	while (link && link->hash != hash)
		link = link->next;
	return link ? (void *)((uintptr_t)link - offset) : NULL;
}
/* An element with HASH, and the next one of the same hash. */
static inline void *kr_table_first_of(const struct kr_table *table, uint64_t hash, size_t offset)
{
	return kr_table_element_of(
		table->buckets ? table->buckets[hash & (table->bucket_count - 1)] : NULL, hash, offset);
}
static inline void *kr_table_next_of(const struct kr_table_link *link, size_t offset)
{
	return kr_table_element_of(link->next, link->hash, offset);
}
/* Goes through the elements with HASH, in any order; the body compares their keys.  MEMBER is the link in *ITEM.
 * The body may leave the loop.  If it removes ITEM or inserts an element, it must leave the loop.
 * When all have been seen, ITEM is NULL. */
#define KR_TABLE_FOR_EACH_OF(item, table, hash, member) \
	for (item = kr_table_first_of(table, hash, offsetof(__typeof__(*item), member)); item; \
		item = kr_table_next_of(&item->member, offsetof(__typeof__(*item), member)))
/* An element with HASH for which MATCHES is true, an expression of ITEM; NULL: there is none. */
#define KR_TABLE_FIND(type, item, table, hash, member, matches) \
	({ \
		type *item; \
		KR_TABLE_FOR_EACH_OF(item, table, hash, member) \
			if (matches) \
				break; \
		item; \
	})

/* XXH3 of bytes, and a mix of a 64-bit key. */
uint64_t kr_hash_bytes(const void *bytes, size_t length);
uint64_t kr_hash_u64(uint64_t key);
static inline uint64_t kr_fid_hash(const struct kr_fid *fid)
{
	return kr_hash_bytes(fid->bytes, fid->length);
}

#endif
