/* The hash table of table.h: separate chaining, doubled when there is more than one element per bucket.  A table that
 * was large gives its memory back: at the next insertions, or when its last element goes. */
#include "common/base/table.h"

#include <assert.h>
#include <stdlib.h>
#include <xxhash.h>

enum { FIRST_BUCKET_COUNT = 16, LARGE_BUCKET_COUNT = 4096 };

void kr_table_init(struct kr_table *table)
{
	*table = (struct kr_table){0};
}

void kr_table_fini(struct kr_table *table)
{
	if (!table)
		return;
	free(table->buckets);
	kr_table_init(table);
}

static struct kr_table_link **bucket_of(const struct kr_table *table, uint64_t hash)
{
	return &table->buckets[hash & (table->bucket_count - 1)];
}

static void push(struct kr_table *table, struct kr_table_link *link)
{
	struct kr_table_link **bucket = bucket_of(table, link->hash);

	link->next = *bucket;
	*bucket = link;
}

static void resize(struct kr_table *table, size_t bucket_count)
{
	struct kr_table other = {.bucket_count = bucket_count, .count = table->count};
	struct kr_table_walk walk = {0};
	struct kr_table_link *link;

	other.buckets = calloc(bucket_count, sizeof(struct kr_table_link *));
	if (!other.buckets)
		return;
	while ((link = kr_table_walk_next(table, &walk, 0)))
		push(&other, link);
	free(table->buckets);
	*table = other;
}

void kr_table_insert(struct kr_table *table, struct kr_table_link *link, uint64_t hash)
{
	if (!table->buckets) {
		table->buckets = kr_xcalloc(FIRST_BUCKET_COUNT, sizeof(struct kr_table_link *));
		table->bucket_count = FIRST_BUCKET_COUNT;
	} else if (table->count >= table->bucket_count) {
		resize(table, table->bucket_count * 2);
	} else if (table->count < table->bucket_count / 8 && table->bucket_count > LARGE_BUCKET_COUNT) {
		resize(table, table->bucket_count / 4);
	}
	link->hash = hash;
	push(table, link);
	table->count++;
}

void kr_table_remove(struct kr_table *table, struct kr_table_link *link)
{
	struct kr_table_link **at = bucket_of(table, link->hash);

	while (*at && *at != link)
		at = &(*at)->next;
	assert(*at);
	*at = link->next;
	link->next = NULL;
	table->count--;
	if (table->count == 0 && table->bucket_count > LARGE_BUCKET_COUNT)
		kr_table_fini(table);
}

void *kr_table_walk_next(const struct kr_table *table, struct kr_table_walk *walk, size_t offset)
{
	struct kr_table_link *link;

	while (!walk->next && walk->bucket < table->bucket_count)
		walk->next = table->buckets[walk->bucket++];
	link = walk->next;
	if (!link)
		return NULL;
	walk->next = link->next; /* LINK may be gone at the next call */
	return (void *)((uintptr_t)link - offset);
}

void kr_table_free_all(struct kr_table *table, size_t offset)
{
	struct kr_table_walk walk = {0};
	void *element;

	while ((element = kr_table_walk_next(table, &walk, offset)))
		free(element);
	kr_table_fini(table);
}

uint64_t kr_hash_bytes(const void *bytes, size_t length)
{
	return XXH3_64bits(bytes, length);
}

/* The finalizer of MurmurHash3: every bit of the key reaches every bit of the result. */
uint64_t kr_hash_u64(uint64_t key)
{
	key ^= key >> 33;
	key *= UINT64_C(0xff51afd7ed558ccd);
	key ^= key >> 33;
	key *= UINT64_C(0xc4ceb9fe1a85ec53);
	return key ^ key >> 33;
}
