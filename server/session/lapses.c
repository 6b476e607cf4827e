#include "server/session/lapses.h"

#include <stdlib.h>
#include <string.h>

struct entry {
	struct kr_table_link link;
	struct kr_link order;
	uint8_t node_id[16];
	struct kr_lapse lapse;
};

static struct entry *find(const struct kr_lapses *lapses, const uint8_t node_id[16])
{
	return KR_TABLE_FIND(struct entry, entry, &lapses->table, kr_hash_bytes(node_id, 16), link,
		memcmp(entry->node_id, node_id, 16) == 0);
}

static void drop(struct kr_lapses *lapses, struct entry *entry)
{
	kr_table_remove(&lapses->table, &entry->link);
	kr_list_remove(&entry->order);
	free(entry);
}

void kr_lapses_init(struct kr_lapses *lapses)
{
	kr_table_init(&lapses->table);
	kr_list_init(&lapses->order);
}

void kr_lapses_fini(struct kr_lapses *lapses)
{
	while (!kr_list_empty(&lapses->order))
		drop(lapses, KR_LIST_ENTRY(lapses->order.head.next, struct entry, order));
	kr_table_fini(&lapses->table);
}

void kr_lapses_note(struct kr_lapses *lapses, const uint8_t node_id[16], const struct kr_lapse *lapse)
{
	struct entry *entry = find(lapses, node_id);

	if (entry)
		drop(lapses, entry);
	if (lapses->table.count >= KR_LAPSES_MAX)
		drop(lapses, KR_LIST_ENTRY(lapses->order.head.next, struct entry, order));
	entry = kr_xcalloc(1, sizeof(*entry));
	memcpy(entry->node_id, node_id, 16);
	entry->lapse = *lapse;
	kr_table_insert(&lapses->table, &entry->link, kr_hash_bytes(node_id, 16));
	kr_list_append(&lapses->order, &entry->order);
}

bool kr_lapses_find(const struct kr_lapses *lapses, const uint8_t node_id[16], struct kr_lapse *ret_lapse)
{
	const struct entry *entry = find(lapses, node_id);

	if (entry)
		*ret_lapse = entry->lapse;
	return entry != NULL;
}
