/* The memory of applied journal positions (see applied.h). */
#include "server/flush/applied.h"

#include <stdlib.h>

struct entry {
	struct kr_table_link link;
	struct kr_link use;
	struct kr_fid file;
	uint8_t node_id[16];
	uint64_t seq, reached;
};

struct key {
	const struct kr_fid *file;
	const uint8_t *node_id;
};

static uint64_t hash_of(const struct key *key)
{
	return kr_fid_hash(key->file) ^ kr_hash_bytes(key->node_id, 16);
}

static bool matches(const struct kr_table_link *link, const void *key_pointer)
{
	const struct entry *entry = KR_CONTAINER_OF(link, const struct entry, link);
	const struct key *key = key_pointer;

	return memcmp(entry->node_id, key->node_id, 16) == 0 && kr_fid_equal(&entry->file, key->file);
}

void kr_applied_init(struct kr_applied *applied)
{
	kr_table_init(&applied->table);
	kr_list_init(&applied->uses);
	applied->incomplete = false;
}

static void forget(struct kr_applied *applied, struct entry *entry)
{
	applied->incomplete = true;
	kr_list_remove(&entry->use);
	kr_table_remove(&applied->table, &entry->link);
	free(entry);
}

static struct entry *oldest(const struct kr_applied *applied)
{
	return KR_LIST_ENTRY(applied->uses.head.next, struct entry, use);
}

void kr_applied_fini(struct kr_applied *applied)
{
	while (!kr_list_empty(&applied->uses))
		forget(applied, oldest(applied));
	kr_table_fini(&applied->table);
}

static struct entry *find(struct kr_applied *applied, const struct key *key)
{
	struct kr_table_link *link = kr_table_find(&applied->table, hash_of(key), matches, key);
	struct entry *entry = link ? KR_CONTAINER_OF(link, struct entry, link) : NULL;

	if (!entry)
		return NULL;
	kr_list_remove(&entry->use);
	kr_list_append(&applied->uses, &entry->use);
	return entry;
}

static struct entry *get(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	const struct key key = {file, node_id};
	struct entry *entry = find(applied, &key);

	if (!entry) {
		if (applied->table.count >= KR_APPLIED_MAX)
			forget(applied, oldest(applied));
		entry = kr_xcalloc(1, sizeof(*entry));
		entry->file = *file;
		memcpy(entry->node_id, node_id, 16);
		kr_table_insert(&applied->table, &entry->link, hash_of(&key));
		kr_list_append(&applied->uses, &entry->use);
	}
	return entry;
}

void kr_applied_note(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16], uint64_t seq)
{
	struct entry *entry = get(applied, file, node_id);

	entry->seq = KR_MAX(entry->seq, seq);
	entry->reached = KR_MAX(entry->reached, seq);
}

void kr_applied_reach(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16], uint64_t seq)
{
	struct entry *entry = get(applied, file, node_id);

	entry->reached = KR_MAX(entry->reached, seq);
}

uint64_t kr_applied_reached(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	const struct key key = {file, node_id};
	const struct entry *entry = find(applied, &key);

	return entry ? entry->reached : 0;
}

uint64_t kr_applied_seq(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	const struct key key = {file, node_id};
	const struct entry *entry = find(applied, &key);

	return entry ? entry->seq : 0;
}

void kr_applied_lose(struct kr_applied *applied, const struct kr_fid *file)
{
	struct entry *entry;

	KR_LIST_FOR_EACH(entry, &applied->uses, use) {
		if (!kr_fid_equal(&entry->file, file))
			continue;
		applied->incomplete |= entry->seq > 0;
		entry->seq = 0;
	}
}
