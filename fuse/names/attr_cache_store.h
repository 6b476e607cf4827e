/* A bounded store of attribute cache entries (common/rpc/attr_cache.h): bytes by key, dropped by slot, by age and,
 * beyond KR_ATTR_CACHE_MAX, the oldest first. The store does not know what the bytes mean; not thread-safe.
 */
#ifndef KR_FUSE_ATTR_CACHE_STORE_H
#define KR_FUSE_ATTR_CACHE_STORE_H

#include <stdbool.h>

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"

/* --- keys: the question, the file, and, where the answer depends on the caller, the caller --- */

/* WHOLE: the hashes of all names that a directory had, in ascending order.  Each name that it has got since has an
 * ENTRY that was asked for later, so WHOLE expires before that ENTRY. */
enum kr_note_kind {
	KR_ATTR_CACHE_ENTRY,
	KR_ATTR_CACHE_SEARCH,
	KR_ATTR_CACHE_WHOLE,
	KR_ATTR_CACHE_ATTR,
	KR_ATTR_CACHE_BARE,
	KR_ATTR_CACHE_XATTR,
	KR_ATTR_CACHE_XATTR_LIST,
	KR_ATTR_CACHE_MAY,
	KR_ATTR_CACHE_TARGET,
	KR_ATTR_CACHE_PAGE
};

struct kr_attr_cache_key {
	size_t length;
	uint8_t bytes[1 + 1 + KR_FID_MAX + 12 + 4 * KR_GROUPS_MAX + KR_NAME_MAX + 1];
};

void kr_attr_cache_key(struct kr_attr_cache_key *key, enum kr_note_kind kind, const struct kr_fid *fid);
void kr_attr_cache_key_by(
	struct kr_attr_cache_key *key, enum kr_note_kind kind, const struct kr_fid *fid, const struct kr_cred *cred);
/* A name stands for the same file for all callers who may search the directory.  Whether a caller may is an entry of
 * its own (KR_ATTR_CACHE_SEARCH). */
void kr_attr_cache_key_entry(struct kr_attr_cache_key *key, const struct kr_fid *parent, const char *name);
void kr_attr_cache_key_xattr(
	struct kr_attr_cache_key *key, const struct kr_fid *fid, const struct kr_cred *cred, const char *name);
/* MASK: of ACCESS; or KR_ATTR_CACHE_READ or _EXECUTE, of OPEN. */
enum { KR_ATTR_CACHE_READ = 1 << 16, KR_ATTR_CACHE_EXECUTE };
void kr_attr_cache_key_may(
	struct kr_attr_cache_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint32_t mask);
void kr_attr_cache_key_page(
	struct kr_attr_cache_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint64_t cookie);

/* --- the store --- */

enum { KR_ATTR_CACHE_MAX = 131072, KR_ATTR_CACHE_BYTES_MAX = 32 << 20, KR_ATTR_CACHE_OLD_MAX = 16384 };

struct kr_attr_cache_entry {
	struct kr_table_link by_key;
	struct kr_link of_slot, by_age;  /* by_age: about the oldest first */
	struct kr_attr_cache_page *page; /* its slot's */
	uint32_t key_length, length;
	uint64_t asked_ns; /* its age counts from then */
	uint64_t true_ns;  /* the answer was true then, and later as far as this node has changed nothing */
	int err;           /* the answer's */
	uint8_t bytes[];   /* key, value */
};

/* The entries of one slot: exists while there are any. */
struct kr_attr_cache_page {
	struct kr_table_link by_slot;
	uint32_t slot;
	struct kr_list entries, lists;
};

struct kr_attr_cache_store {
	struct kr_table by_key, by_slot;
	struct kr_list by_age;
	size_t bytes;
	uint64_t life_ns; /* from asked_ns */
};

void kr_attr_cache_store_init(struct kr_attr_cache_store *store);
void kr_attr_cache_store_fini(struct kr_attr_cache_store *store);
/* Frees entries whose age is over, KR_ATTR_CACHE_OLD_MAX at most; a put frees all. */
void kr_attr_cache_store_forget_old(struct kr_attr_cache_store *store, uint64_t now_ns);
/* Puts an answer that the node asked for at ASKED_NS, ERR and VALUE (copied), in the place of KEY's former entry.
 * False: out of memory. */
bool kr_attr_cache_store_put(struct kr_attr_cache_store *store, uint32_t slot, const void *key, size_t key_length,
	uint64_t asked_ns, int err, const void *value, size_t length);
/* The same of a list: part of what is in SLOT that kr_attr_cache_store_forget_lists forgets. */
void kr_attr_cache_store_put_list(struct kr_attr_cache_store *store, uint32_t slot, const void *key, size_t key_length,
	uint64_t asked_ns, const void *value, size_t length);
/* The entry of KEY, borrowed until the next call; NULL: there is none, or it is too old at NOW_NS. */
const struct kr_attr_cache_entry *kr_attr_cache_store_get(
	const struct kr_attr_cache_store *store, const void *key, size_t key_length, uint64_t now_ns);
/* Overwrites the value of ENTRY with VALUE, which is as long. */
void kr_attr_cache_store_amend(
	struct kr_attr_cache_store *store, const struct kr_attr_cache_entry *entry, const void *value);
static inline const void *kr_note_value(const struct kr_attr_cache_entry *entry)
{
	return entry->bytes + entry->key_length;
}
/* The entry of KEY was true at AT_NS, too, which is later than when the node asked for it. */
void kr_attr_cache_store_confirm(struct kr_attr_cache_store *store, const void *key, size_t key_length, uint64_t at_ns);
/* Drops the entry of KEY. */
void kr_attr_cache_store_drop(struct kr_attr_cache_store *store, const void *key, size_t key_length);
void kr_attr_cache_store_forget_lists(struct kr_attr_cache_store *store, uint32_t slot);
/* Drops what is in SLOT; KR_ATTR_CACHE_ALL: everything. */
void kr_attr_cache_store_forget(struct kr_attr_cache_store *store, uint32_t slot);

#endif
