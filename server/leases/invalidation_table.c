/* See invalidation_table.h. */
#include "server/leases/invalidation_table.h"

#include <assert.h>
#include <stdlib.h>

#include "common/rpc/attr_cache.h"
#include "common/base/util.h"

void kr_invalidation_table_init(struct kr_invalidation_table *table)
{
	*table = (struct kr_invalidation_table){.slots = kr_xcalloc(KR_ATTR_CACHE_BUCKETS, sizeof(table->slots[0]))};
}

void kr_invalidation_table_fini(struct kr_invalidation_table *table)
{
	free(table->slots);
	table->slots = NULL;
}

static struct kr_attr_cache_bucket *slot_of(struct kr_invalidation_table *table, uint32_t slot)
{
	assert(slot < KR_ATTR_CACHE_BUCKETS);
	return &table->slots[slot];
}

/* Who may have notes still. */
static uint64_t holders(struct kr_attr_cache_bucket *slot, uint64_t now_ms)
{
	if (now_ms > slot->granted_ms + KR_ATTR_CACHE_GRANT_MS)
		slot->holders = slot->told = 0;
	return slot->holders;
}

uint64_t kr_invalidation_table_begin(struct kr_invalidation_table *table, uint32_t number, uint64_t now_ms)
{
	struct kr_attr_cache_bucket *slot = slot_of(table, number);

	slot->changing++;
	return holders(slot, now_ms);
}

void kr_invalidation_table_forgotten(struct kr_invalidation_table *table, uint32_t number, uint64_t bits)
{
	struct kr_attr_cache_bucket *slot = slot_of(table, number);

	assert(slot->changing > 0);
	slot->holders &= ~bits;
	slot->told &= ~bits;
}

void kr_invalidation_table_rest(struct kr_invalidation_table *table, uint32_t number, uint32_t node, uint64_t now_ms)
{
	struct kr_attr_cache_bucket *slot = slot_of(table, number);

	slot->rest_ms = now_ms + KR_ATTR_CACHE_REST_MS;
	slot->changer = kr_note_bit(node);
}

uint64_t kr_invalidation_table_tell(struct kr_invalidation_table *table, uint32_t number, uint64_t bits)
{
	struct kr_attr_cache_bucket *slot = slot_of(table, number);
	uint64_t tell = slot->holders & bits & ~slot->told;

	slot->told |= tell;
	return tell;
}

void kr_invalidation_table_end(struct kr_invalidation_table *table, uint32_t number)
{
	struct kr_attr_cache_bucket *slot = slot_of(table, number);

	assert(slot->changing > 0);
	slot->changing--;
	slot->changed = ++table->moment;
}

void kr_invalidation_table_end_all(struct kr_invalidation_table *table)
{
	table->changed = ++table->moment;
}

bool kr_invalidation_table_grant(struct kr_invalidation_table *table, uint32_t number, uint32_t node, uint64_t since,
	uint32_t own, uint64_t now_ms)
{
	struct kr_attr_cache_bucket *slot = slot_of(table, number);
	uint64_t bit = kr_note_bit(node);

	if (slot->changing != own || slot->changed > since || table->changed > since)
		return false;
	if (now_ms < slot->rest_ms && slot->changer != bit)
		return false;
	holders(slot, now_ms);
	slot->holders |= bit;
	slot->told &= ~bit;
	slot->granted_ms = now_ms;
	return true;
}

bool kr_invalidation_table_others(struct kr_invalidation_table *table, uint32_t number, uint32_t node, uint64_t now_ms)
{
	return holders(slot_of(table, number), now_ms) & ~kr_note_bit(node);
}
