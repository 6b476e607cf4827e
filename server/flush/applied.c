/* The memory of applied journal positions (see applied.h). */
#include "server/flush/applied.h"

#include <stdlib.h>

struct entry {
	struct kr_table_link link;
	struct kr_link use;
	uint8_t node_id[16];
	uint64_t seq, reached;
	struct kr_fid file; /* last: cut to its length */
};

static uint64_t hash_of(const struct kr_fid *file, const uint8_t node_id[16])
{
	return kr_fid_hash(file) ^ kr_hash_bytes(node_id, 16);
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

static struct entry *find(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	struct entry *entry;

	KR_TABLE_FOR_EACH_OF(entry, &applied->table, hash_of(file, node_id), link) {
		if (memcmp(entry->node_id, node_id, 16) == 0 && kr_fid_equal(&entry->file, file)) {
			kr_list_remove(&entry->use);
			kr_list_append(&applied->uses, &entry->use);
			return entry;
		}
	}
	return NULL;
}

static struct entry *get(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	struct entry *entry = find(applied, file, node_id);

	if (!entry) {
		if (applied->table.count >= KR_APPLIED_MAX)
			forget(applied, oldest(applied));
		entry = kr_xcalloc(1, offsetof(struct entry, file.bytes) + file->length);
		memcpy(&entry->file, file, offsetof(struct kr_fid, bytes) + file->length);
		memcpy(entry->node_id, node_id, 16);
		kr_table_insert(&applied->table, &entry->link, hash_of(file, node_id));
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
	const struct entry *entry = find(applied, file, node_id);

	return entry ? entry->reached : 0;
}

uint64_t kr_applied_seq(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	const struct entry *entry = find(applied, file, node_id);

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
