/* See attr_cache_store.h. */
#include "fuse/names/attr_cache_store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/attr_cache.h"
#include "common/base/util.h"

void kr_attr_cache_store_init(struct kr_attr_cache_store *store)
{
	kr_table_init(&store->by_key);
	kr_table_init(&store->by_slot);
	kr_list_init(&store->by_age);
	store->life_ns = KR_ATTR_CACHE_MS * KR_NS_PER_MS;
	store->bytes = 0;
}

void kr_attr_cache_store_fini(struct kr_attr_cache_store *store)
{
	kr_attr_cache_store_forget(store, KR_ATTR_CACHE_ALL);
	kr_table_fini(&store->by_key);
	kr_table_fini(&store->by_slot);
}

static size_t size_of(const struct kr_attr_cache_entry *entry)
{
	return sizeof(*entry) + entry->key_length + entry->length;
}

static void drop(struct kr_attr_cache_store *store, struct kr_attr_cache_entry *entry)
{
	kr_table_remove(&store->by_key, &entry->by_key);
	kr_list_remove(&entry->of_slot);
	kr_list_remove(&entry->by_age);
	store->bytes -= size_of(entry);
	if (kr_list_empty(&entry->page->entries) && kr_list_empty(&entry->page->lists)) {
		kr_table_remove(&store->by_slot, &entry->page->by_slot);
		free(entry->page);
	}
	free(entry);
}

static struct kr_attr_cache_entry *find(const struct kr_attr_cache_store *store, const void *key, size_t length)
{
	return KR_TABLE_FIND(struct kr_attr_cache_entry, entry, &store->by_key, kr_hash_bytes(key, length), by_key,
		entry->key_length == length && memcmp(entry->bytes, key, length) == 0);
}

static struct kr_attr_cache_page *find_page(const struct kr_attr_cache_store *store, uint32_t slot)
{
	return KR_TABLE_FIND(
		struct kr_attr_cache_page, page, &store->by_slot, kr_hash_u64(slot), by_slot, page->slot == slot);
}

static struct kr_attr_cache_page *page_of(struct kr_attr_cache_store *store, uint32_t slot)
{
	struct kr_attr_cache_page *page = find_page(store, slot);

	if (page)
		return page;
	page = kr_xcalloc(1, sizeof(*page));
	page->slot = slot;
	kr_list_init(&page->entries);
	kr_list_init(&page->lists);
	kr_table_insert(&store->by_slot, &page->by_slot, kr_hash_u64(slot));
	return page;
}

static struct kr_attr_cache_entry *oldest(const struct kr_attr_cache_store *store)
{
	return kr_list_empty(&store->by_age) ?
		NULL :
		KR_LIST_ENTRY(store->by_age.head.next, struct kr_attr_cache_entry, by_age);
}

static bool is_old(const struct kr_attr_cache_store *store, const struct kr_attr_cache_entry *entry, uint64_t now_ns)
{
	return now_ns - KR_MIN(now_ns, entry->asked_ns) > store->life_ns;
}

/* Answers come about in the order of the questions, so that the order of coming will do for ages. */
static void make_room(struct kr_attr_cache_store *store, size_t bytes, uint64_t now_ns)
{
	struct kr_attr_cache_entry *entry;

	while ((entry = oldest(store)) &&
		(store->by_key.count >= KR_ATTR_CACHE_MAX || store->bytes + bytes > KR_ATTR_CACHE_BYTES_MAX ||
			is_old(store, entry, now_ns)))
		drop(store, entry);
}

void kr_attr_cache_store_forget_old(struct kr_attr_cache_store *store, uint64_t now_ns)
{
	struct kr_attr_cache_entry *entry;

	for (unsigned i = 0; i < KR_ATTR_CACHE_OLD_MAX && (entry = oldest(store)) && is_old(store, entry, now_ns); i++)
		drop(store, entry);
}

/* NULL: out of memory; it will be asked again. */
static struct kr_attr_cache_entry *put(struct kr_attr_cache_store *store, uint32_t slot, const void *key,
	size_t key_length, uint64_t asked_ns, int err, const void *value, size_t length)
{
	struct kr_attr_cache_entry *entry = find(store, key, key_length);

	if (entry)
		drop(store, entry);
	make_room(store, sizeof(*entry) + key_length + length, asked_ns);
	entry = malloc(sizeof(*entry) + key_length + length);
	if (!entry)
		return NULL;
	*entry = (struct kr_attr_cache_entry){.page = page_of(store, slot),
		.key_length = (uint32_t)key_length,
		.length = (uint32_t)length,
		.asked_ns = asked_ns,
		.true_ns = asked_ns,
		.err = err};
	memcpy(entry->bytes, key, key_length);
	if (length)
		memcpy(entry->bytes + key_length, value, length);
	kr_table_insert(&store->by_key, &entry->by_key, kr_hash_bytes(key, key_length));
	kr_list_append(&entry->page->entries, &entry->of_slot);
	kr_list_append(&store->by_age, &entry->by_age);
	store->bytes += size_of(entry);
	return entry;
}

bool kr_attr_cache_store_put(struct kr_attr_cache_store *store, uint32_t slot, const void *key, size_t key_length,
	uint64_t asked_ns, int err, const void *value, size_t length)
{
	return put(store, slot, key, key_length, asked_ns, err, value, length) != NULL;
}

void kr_attr_cache_store_put_list(struct kr_attr_cache_store *store, uint32_t slot, const void *key, size_t key_length,
	uint64_t asked_ns, const void *value, size_t length)
{
	struct kr_attr_cache_entry *entry = put(store, slot, key, key_length, asked_ns, 0, value, length);

	if (!entry)
		return;
	kr_list_remove(&entry->of_slot);
	kr_list_append(&entry->page->lists, &entry->of_slot);
}

void kr_attr_cache_store_drop(struct kr_attr_cache_store *store, const void *key, size_t key_length)
{
	struct kr_attr_cache_entry *entry = find(store, key, key_length);

	if (entry)
		drop(store, entry);
}

void kr_attr_cache_store_amend(
	struct kr_attr_cache_store *store, const struct kr_attr_cache_entry *entry, const void *value)
{
	struct kr_attr_cache_entry *own = find(store, entry->bytes, entry->key_length);

	memcpy(own->bytes + own->key_length, value, own->length);
}

void kr_attr_cache_store_confirm(struct kr_attr_cache_store *store, const void *key, size_t key_length, uint64_t at_ns)
{
	struct kr_attr_cache_entry *entry = find(store, key, key_length);

	if (entry)
		entry->true_ns = at_ns;
}

const struct kr_attr_cache_entry *kr_attr_cache_store_get(
	const struct kr_attr_cache_store *store, const void *key, size_t key_length, uint64_t now_ns)
{
	const struct kr_attr_cache_entry *entry = find(store, key, key_length);

	return entry && !is_old(store, entry, now_ns) ? entry : NULL;
}

/* LIST is one of a page's, which goes with its last note. */
static void drop_list(struct kr_attr_cache_store *store, const struct kr_list *list)
{
	const struct kr_link *link, *last = list->head.prev;

	if (kr_list_empty(list))
		return;
	do {
		link = list->head.next;
		drop(store, KR_LIST_ENTRY(link, struct kr_attr_cache_entry, of_slot));
	} while (link != last);
}

void kr_attr_cache_store_forget_lists(struct kr_attr_cache_store *store, uint32_t slot)
{
	const struct kr_attr_cache_page *page = find_page(store, slot);

	if (page)
		drop_list(store, &page->lists);
}

void kr_attr_cache_store_forget(struct kr_attr_cache_store *store, uint32_t slot)
{
	const struct kr_attr_cache_page *page = slot == KR_ATTR_CACHE_ALL ? NULL : find_page(store, slot);
	struct kr_attr_cache_entry *entry;

	if (slot == KR_ATTR_CACHE_ALL) {
		while ((entry = oldest(store)))
			drop(store, entry);
	} else if (page) {
		drop_list(store, &page->lists);
		page = find_page(store, slot);
		if (page)
			drop_list(store, &page->entries);
	}
}

/* --- keys -------------------------------------------------------------------------------------- */

static void add(struct kr_attr_cache_key *key, const void *bytes, size_t length)
{
	assert(length <= sizeof(key->bytes) - key->length);
	memcpy(key->bytes + key->length, bytes, length);
	key->length += length;
}

static void add_u32(struct kr_attr_cache_key *key, uint32_t value)
{
	add(key, &value, sizeof(value));
}

void kr_attr_cache_key(struct kr_attr_cache_key *key, enum kr_note_kind kind, const struct kr_fid *fid)
{
	key->length = 0;
	add(key, &(uint8_t){(uint8_t)kind}, 1);
	add(key, &fid->length, 1);
	add(key, fid->bytes, fid->length);
}

void kr_attr_cache_key_by(
	struct kr_attr_cache_key *key, enum kr_note_kind kind, const struct kr_fid *fid, const struct kr_cred *cred)
{
	kr_attr_cache_key(key, kind, fid);
	add_u32(key, cred->uid);
	add_u32(key, cred->gid);
	add_u32(key, cred->group_count);
	if (cred->group_count)
		add(key, cred->groups, cred->group_count * sizeof(cred->groups[0]));
}

void kr_attr_cache_key_entry(struct kr_attr_cache_key *key, const struct kr_fid *parent, const char *name)
{
	kr_attr_cache_key(key, KR_ATTR_CACHE_ENTRY, parent);
	add(key, name, strlen(name));
}

void kr_attr_cache_key_xattr(
	struct kr_attr_cache_key *key, const struct kr_fid *fid, const struct kr_cred *cred, const char *name)
{
	kr_attr_cache_key_by(key, KR_ATTR_CACHE_XATTR, fid, cred);
	add(key, name, strnlen(name, KR_NAME_MAX));
}

void kr_attr_cache_key_may(
	struct kr_attr_cache_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint32_t mask)
{
	kr_attr_cache_key_by(key, KR_ATTR_CACHE_MAY, fid, cred);
	add_u32(key, mask);
}

void kr_attr_cache_key_page(
	struct kr_attr_cache_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint64_t cookie)
{
	kr_attr_cache_key_by(key, KR_ATTR_CACHE_PAGE, fid, cred);
	add(key, &cookie, sizeof(cookie));
}
