/* The memory of applied journal positions (see applied.h). */
#include "server/flush/applied.h"

#include <stdlib.h>

struct key {
	const struct kr_fid *file;
	const uint8_t *node_id;
};

/* One node of which entries have been forgotten. */
struct forgotten {
	struct kr_table_link link;
	uint8_t node_id[16];
	uint64_t seq; /* the highest */
};

static uint64_t hash_of(const struct key *key)
{
	return kr_fid_hash(key->file) ^ kr_hash_bytes(key->node_id, 16);
}

static bool matches(const struct kr_table_link *link, const void *key_pointer)
{
	const struct kr_applied_entry *entry = KR_CONTAINER_OF(link, const struct kr_applied_entry, link);
	const struct key *key = key_pointer;

	return memcmp(entry->node_id, key->node_id, 16) == 0 && kr_fid_equal(&entry->file, key->file);
}

void kr_applied_init(struct kr_applied *applied)
{
	kr_table_init(&applied->table);
	kr_list_init(&applied->uses);
	kr_table_init(&applied->forgotten);
	applied->owing = 0;
}

static bool is_of_node(const struct kr_table_link *link, const void *node_id)
{
	return memcmp(KR_CONTAINER_OF(link, const struct forgotten, link)->node_id, node_id, 16) == 0;
}

static struct forgotten *find_forgotten(struct kr_applied *applied, const uint8_t node_id[16])
{
	struct kr_table_link *link =
		kr_table_find(&applied->forgotten, kr_hash_bytes(node_id, 16), is_of_node, node_id);

	return link ? KR_CONTAINER_OF(link, struct forgotten, link) : NULL;
}

/* Beyond the maximum of nodes nothing is noted: then kr_applied_forgotten answers for all those that are not in the
 * table. */
static void note_forgotten(struct kr_applied *applied, const struct kr_applied_entry *entry)
{
	struct forgotten *forgotten = find_forgotten(applied, entry->node_id);

	if (!forgotten && applied->forgotten.count >= KR_APPLIED_NODES_MAX)
		return;
	if (!forgotten) {
		forgotten = kr_xcalloc(1, sizeof *forgotten);
		memcpy(forgotten->node_id, entry->node_id, 16);
		kr_table_insert(&applied->forgotten, &forgotten->link, kr_hash_bytes(entry->node_id, 16));
	}
	forgotten->seq = KR_MAX(forgotten->seq, entry->lossy ? UINT64_MAX : entry->seq);
}

/* Who has not been told yet of what a failed sync has lost would let go of it: such an entry goes only when there are
 * many. */
static struct kr_applied_entry *take_oldest(struct kr_applied *applied)
{
	enum { SPARED_MAX = 64 };

	for (unsigned spared = 0;; spared++) {
		struct kr_applied_entry *entry =
			KR_LIST_ENTRY(kr_list_pop(&applied->uses), struct kr_applied_entry, use);

		if (!entry->unstable_err || spared == SPARED_MAX)
			return entry;
		kr_list_append(&applied->uses, &entry->use);
	}
}

static void forget_oldest(struct kr_applied *applied)
{
	struct kr_applied_entry *entry = take_oldest(applied);

	applied->owing -= entry->owing;
	kr_table_remove(&applied->table, &entry->link);
	note_forgotten(applied, entry);
	free(entry);
}

static bool free_forgotten(struct kr_table_link *link, void *context)
{
	struct kr_applied *applied = context;

	kr_table_remove(&applied->forgotten, link);
	free(KR_CONTAINER_OF(link, struct forgotten, link));
	return true;
}

void kr_applied_fini(struct kr_applied *applied)
{
	while (!kr_list_empty(&applied->uses))
		forget_oldest(applied);
	kr_table_fini(&applied->table);
	kr_table_for_each(&applied->forgotten, free_forgotten, applied);
	kr_table_fini(&applied->forgotten);
}

struct kr_applied_entry *kr_applied_find(
	struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	struct key key = {file, node_id};
	struct kr_table_link *link = kr_table_find(&applied->table, hash_of(&key), matches, &key);
	struct kr_applied_entry *entry;

	if (!link)
		return NULL;
	entry = KR_CONTAINER_OF(link, struct kr_applied_entry, link);
	kr_list_remove(&entry->use);
	kr_list_append(&applied->uses, &entry->use);
	return entry;
}

static struct kr_applied_entry *find_or_make(
	struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	struct kr_applied_entry *entry = kr_applied_find(applied, file, node_id);
	struct key key = {file, node_id};

	if (entry)
		return entry;
	if (applied->table.count >= KR_APPLIED_MAX)
		forget_oldest(applied);
	entry = kr_xcalloc(1, sizeof *entry);
	entry->file = *file;
	memcpy(entry->node_id, node_id, 16);
	kr_table_insert(&applied->table, &entry->link, hash_of(&key));
	kr_list_append(&applied->uses, &entry->use);
	return entry;
}

void kr_applied_note(
	struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16], uint64_t seq, uint64_t round)
{
	struct kr_applied_entry *entry = find_or_make(applied, file, node_id);

	if (entry->lossy)
		return;
	entry->seq = KR_MAX(entry->seq, seq);
	entry->round = KR_MAX(entry->round, round);
}

void kr_applied_note_replayed(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16],
	const struct kr_applied_replay *replay)
{
	struct kr_applied_entry *entry;

	kr_applied_note(applied, file, node_id, replay->seq, replay->round);
	entry = find_or_make(applied, file, node_id);
	entry->replayed = true;
	entry->order = KR_MAX(entry->order, replay->order);
}

static void lose(struct kr_applied_entry *entry)
{
	entry->lossy = true;
	entry->seq = entry->round = 0;
}

void kr_applied_lose(struct kr_applied *applied, const struct kr_fid *file)
{
	struct kr_applied_entry *entry;

	KR_LIST_FOR_EACH(entry, &applied->uses, use) {
		if (kr_fid_equal(&entry->file, file))
			lose(entry);
	}
}

void kr_applied_note_unstable(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16],
	const struct kr_applied_loss *loss)
{
	struct kr_applied_entry *entry = find_or_make(applied, file, node_id);

	entry->good = entry->unstable_err ? KR_MIN(entry->good, loss->good) : loss->good;
	entry->last = KR_MAX(entry->last, loss->last);
	entry->unstable_err = loss->err;
	entry->resending = false;
	applied->owing += !entry->owing;
	entry->owing = true;
	entry->since = 0;
	lose(entry);
}

void kr_applied_told(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16],
	const struct kr_applied_loss *loss, bool resent)
{
	struct kr_applied_entry *entry = kr_applied_find(applied, file, node_id);

	if (!entry || entry->good < loss->good || entry->last > loss->last)
		return; /* there was another loss: it is told of that, too */
	entry->unstable_err = 0;
	entry->resending = resent;
}

void kr_applied_resent(
	struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16], int err, bool more)
{
	struct kr_applied_entry *entry = applied->owing ? kr_applied_find(applied, file, node_id) : NULL;

	if (!entry || !entry->resending || (!err && more))
		return;
	entry->resending = false;
	if (!err)
		kr_applied_clean(applied, file, node_id);
}

bool kr_applied_owes(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	const struct kr_applied_entry *entry = applied->owing ? kr_applied_find(applied, file, node_id) : NULL;

	return entry && entry->owing;
}

void kr_applied_clean(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	struct kr_applied_entry *entry = kr_applied_find(applied, file, node_id);

	if (!entry || !entry->owing)
		return;
	entry->owing = false;
	applied->owing--;
}

void kr_applied_flush_came(struct kr_applied *applied, const struct kr_fid *file, const struct kr_applied_flush *flush)
{
	struct kr_applied_entry *entry = applied->owing ? kr_applied_find(applied, file, flush->node_id) : NULL;

	if (!entry || !entry->owing || entry->unstable_err ||
		(entry->since && entry->incarnation == flush->incarnation))
		return;
	entry->incarnation = flush->incarnation;
	entry->since = flush->number;
}

void kr_applied_flush_done(struct kr_applied *applied, const struct kr_fid *file, const struct kr_applied_flush *flush)
{
	const struct kr_applied_entry *entry = applied->owing ? kr_applied_find(applied, file, flush->node_id) : NULL;

	if (entry && entry->since && entry->incarnation == flush->incarnation && flush->number > entry->since)
		kr_applied_clean(applied, file, flush->node_id);
}

uint64_t kr_applied_forgotten(struct kr_applied *applied, const struct kr_fid *file, const uint8_t node_id[16])
{
	const struct kr_applied_entry *entry = kr_applied_find(applied, file, node_id);
	const struct forgotten *forgotten;

	if (entry) /* numbers ascend: an entry made anew after it was forgotten tells all */
		return entry->lossy ? UINT64_MAX : 0;
	forgotten = find_forgotten(applied, node_id);
	if (!forgotten)
		return applied->forgotten.count >= KR_APPLIED_NODES_MAX ? UINT64_MAX : 0;
	return forgotten->seq;
}
