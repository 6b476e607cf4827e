/* See invalidation_table.h. */
#include "server/leases/invalidation_table.h"

#include <assert.h>
#include <stdlib.h>

#include "common/rpc/attr_cache.h"
#include "common/base/util.h"

void kr_invalidation_table_init(struct kr_invalidation_table *table)
{
	*table =
		(struct kr_invalidation_table){.buckets = kr_xcalloc(KR_ATTR_CACHE_BUCKETS, sizeof(table->buckets[0]))};
}

void kr_invalidation_table_fini(struct kr_invalidation_table *table)
{
	free(table->buckets);
	table->buckets = NULL;
}

static struct kr_attr_cache_bucket *bucket_of(struct kr_invalidation_table *table, uint32_t bucket)
{
	assert(bucket < KR_ATTR_CACHE_BUCKETS);
	return &table->buckets[bucket];
}

static uint64_t holders(struct kr_attr_cache_bucket *bucket, uint64_t now_ms)
{
	if (now_ms > bucket->granted_ms + KR_ATTR_CACHE_GRANT_MS)
		bucket->holders = bucket->notified = 0;
	return bucket->holders;
}

uint64_t kr_invalidation_table_begin(struct kr_invalidation_table *table, uint32_t number, uint64_t now_ms)
{
	struct kr_attr_cache_bucket *bucket = bucket_of(table, number);

	bucket->changing++;
	return holders(bucket, now_ms);
}

void kr_invalidation_table_answered(struct kr_invalidation_table *table, uint32_t number, uint64_t bits)
{
	struct kr_attr_cache_bucket *bucket = bucket_of(table, number);

	assert(bucket->changing > 0);
	bucket->holders &= ~bits;
	bucket->notified &= ~bits;
}

void kr_invalidation_table_defer(struct kr_invalidation_table *table, uint32_t number, uint32_t node, uint64_t now_ms)
{
	struct kr_attr_cache_bucket *bucket = bucket_of(table, number);

	bucket->deferred_ms = now_ms + KR_ATTR_CACHE_DEFER_MS;
	bucket->changer = kr_attr_cache_node_bit(node);
}

uint64_t kr_invalidation_table_notify(struct kr_invalidation_table *table, uint32_t number, uint64_t bits)
{
	struct kr_attr_cache_bucket *bucket = bucket_of(table, number);
	uint64_t tell = bucket->holders & bits & ~bucket->notified;

	bucket->notified |= tell;
	return tell;
}

void kr_invalidation_table_end(struct kr_invalidation_table *table, uint32_t number)
{
	struct kr_attr_cache_bucket *bucket = bucket_of(table, number);

	assert(bucket->changing > 0);
	bucket->changing--;
	bucket->changed = ++table->moment;
}

void kr_invalidation_table_end_all(struct kr_invalidation_table *table)
{
	table->changed = ++table->moment;
}

bool kr_invalidation_table_grant(struct kr_invalidation_table *table, uint32_t number, uint32_t node, uint64_t since,
	uint32_t own, uint64_t now_ms)
{
	struct kr_attr_cache_bucket *bucket = bucket_of(table, number);
	uint64_t bit = kr_attr_cache_node_bit(node);

	if (bucket->changing != own || bucket->changed > since || table->changed > since)
		return false;
	if (now_ms < bucket->deferred_ms && bucket->changer != bit)
		return false;
	holders(bucket, now_ms);
	bucket->holders |= bit;
	bucket->notified &= ~bit;
	bucket->granted_ms = now_ms;
	return true;
}

uint64_t kr_invalidation_table_holders(struct kr_invalidation_table *table, uint32_t number, uint64_t now_ms)
{
	return holders(bucket_of(table, number), now_ms);
}
