/* See attr_cache.h: invalidating and answering; attr_cache_fill.c fills. */
#include "fuse/names/attr_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/attr_cache.h"
#include "fuse/names/attr_cache_priv.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/session/rpc.h"

void kr_attr_cache_forget_old(struct kr_mount *mount)
{
	KR_SCOPED_LOCK(&mount->attr_cache->lock);

	kr_attr_cache_store_forget_old(&mount->attr_cache->store, kr_clock_ns());
}

/* --- invalidating ----------------------------------------------------------------------------- */

static void invalidate(struct kr_mount *mount, uint32_t bucket)
{
	KR_SCOPED_LOCK(&mount->attr_cache->lock);

	kr_attr_cache_store_forget(&mount->attr_cache->store, bucket);
	mount->attr_cache->forgets++;
}

static void on_invalidate(struct kr_mount *mount, const struct kr_down *down, const void *message, struct kr_buf *data)
{
	const struct kr_invalidate_request *request = message;

	(void)data;
	invalidate(mount, request->bucket);
	kr_kernel_attrs_invalidate(mount, request->bucket, down);
}

void kr_attr_cache_clear(struct kr_mount *mount)
{
	invalidate(mount, KR_ATTR_CACHE_ALL);
	kr_kernel_attrs_invalidate(mount, KR_ATTR_CACHE_ALL, NULL);
}

void kr_attr_cache_start(struct kr_mount *mount)
{
	kr_rpc_on(mount->rpc, KR_MSG_INVALIDATE, on_invalidate);
}

struct kr_attr_cache *kr_attr_cache_new(void)
{
	struct kr_attr_cache *cache = kr_xcalloc(1, sizeof(*cache));

	pthread_mutex_init(&cache->lock, NULL);
	kr_attr_cache_store_init(&cache->store);
	kr_list_init(&cache->changes);
	return cache;
}

void kr_attr_cache_free(struct kr_attr_cache *cache)
{
	if (!cache)
		return;
	kr_attr_cache_store_fini(&cache->store);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

/* --- knowing ---------------------------------------------------------------------------------- */

/* [lock] held.  What KEY says of FID, or NULL. */
static const struct kr_attr_cache_entry *find(
	struct kr_mount *mount, const struct kr_fid *fid, const struct kr_attr_cache_key *key)
{
	uint64_t now_ns = kr_clock_ns();

	if (now_ns >= atomic_load_explicit(&mount->fence_at_ns, memory_order_relaxed) ||
		kr_attr_cache_all_changes(mount->attr_cache, fid))
		return NULL;
	return kr_attr_cache_store_get(&mount->attr_cache->store, key->bytes, key->length, now_ns);
}

/* The same, copied into BUFFER of SIZE; a value that does not fit is not answered. */
static bool get(struct kr_mount *mount, const struct kr_fid *fid, const struct kr_attr_cache_key *key, int *ret_err,
	void *buffer, size_t size, size_t *ret_length, uint64_t *ret_true_ns)
{
	const struct kr_attr_cache_entry *entry = find(mount, fid, key);

	if (!entry || entry->length > size)
		return false;
	if (buffer)
		memcpy(buffer, kr_note_value(entry), entry->length);
	if (ret_err)
		*ret_err = entry->err;
	if (ret_length)
		*ret_length = entry->length;
	if (ret_true_ns)
		*ret_true_ns = entry->true_ns;
	return true;
}

static bool get_attr(struct kr_mount *mount, const struct kr_fid *fid, struct kr_attr *ret_attr, uint64_t *ret_true_ns)
{
	struct kr_attr_cache_key key;

	kr_attr_cache_key(&key, KR_ATTR_CACHE_ATTR, fid);
	return get(mount, fid, &key, NULL, ret_attr, sizeof(*ret_attr), NULL, ret_true_ns);
}

/* Whether every caller may search DIR: it has no ACL, and its mode allows it.  [lock] held. */
static bool all_may_search(struct kr_mount *mount, const struct kr_fid *dir)
{
	enum { EVERYBODY = 0111 };
	struct kr_attr_cache_key key;
	struct kr_attr attr;
	bool bare;

	kr_attr_cache_key(&key, KR_ATTR_CACHE_BARE, dir);
	return get(mount, dir, &key, NULL, &bare, sizeof(bare), NULL, NULL) && bare &&
		get_attr(mount, dir, &attr, NULL) && (attr.mode & EVERYBODY) == EVERYBODY;
}

static bool may_search(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *dir)
{
	struct kr_attr_cache_key key;

	if (!cred)
		return all_may_search(mount, dir);
	kr_attr_cache_key_by(&key, KR_ATTR_CACHE_SEARCH, dir, cred);
	return get(mount, dir, &key, NULL, NULL, 0, NULL, NULL);
}

/* [lock] held.  A directory's attributes may be older than a change of a name in it: the kernel asks for them again
 * before it shows them. */
static bool get_entry(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent, const char *name,
	int *ret_err, struct kr_fid *ret_fid, struct kr_attr *ret_attr, uint64_t *ret_true_ns)
{
	const struct kr_attr_cache_entry *whole;
	struct kr_attr_cache_key key;

	if (kr_attr_cache_name_changes(mount->attr_cache, parent, name) || !may_search(mount, cred, parent))
		return false;
	kr_attr_cache_key_entry(&key, parent, name);
	if (get(mount, parent, &key, ret_err, ret_fid, sizeof(*ret_fid), NULL, NULL))
		return *ret_err || get_attr(mount, ret_fid, ret_attr, ret_true_ns);
	kr_attr_cache_key(&key, KR_ATTR_CACHE_WHOLE, parent);
	*ret_err = -ENOENT;
	whole = find(mount, parent, &key);
	return whole && !kr_attr_cache_had(whole, name);
}

bool kr_attr_cache_lookup(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, int *ret_err, struct kr_fid *ret_fid, struct kr_attr *ret_attr, uint64_t *ret_true_ns)
{
	bool known;

	KR_SCOPED_LOCK(&mount->attr_cache->lock);
	known = get_entry(mount, cred, parent, name, ret_err, ret_fid, ret_attr, ret_true_ns);
	mount->attr_cache->known += known;
	return known;
}

bool kr_attr_cache_find(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	uint64_t asked_ns;
	int err;

	KR_SCOPED_LOCK(&mount->attr_cache->lock);
	return get_entry(mount, cred, parent, name, &err, ret_fid, ret_attr, &asked_ns) && err == 0;
}

bool kr_attr_cache_has(
	struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent, const char *name)
{
	uint64_t asked_ns;
	struct kr_fid fid;
	struct kr_attr attr;
	int err;

	KR_SCOPED_LOCK(&mount->attr_cache->lock);
	return get_entry(mount, cred, parent, name, &err, &fid, &attr, &asked_ns);
}

bool kr_attr_cache_is_public(
	struct kr_mount *mount, const struct kr_fid *dir, const char *name, const struct kr_fid *fid)
{
	struct kr_attr_cache *cache = mount->attr_cache;
	struct kr_attr_cache_key key;
	struct kr_fid found;
	int err;

	kr_attr_cache_key_entry(&key, dir, name);
	KR_SCOPED_LOCK(&cache->lock);
	return !kr_attr_cache_name_changes(cache, dir, name) && all_may_search(mount, dir) &&
		get(mount, dir, &key, &err, &found, sizeof(found), NULL, NULL) && err == 0 && kr_fid_equal(&found, fid);
}

bool kr_attr_cache_getattr(
	struct kr_mount *mount, const struct kr_fid *fid, struct kr_attr *ret_attr, uint64_t *ret_true_ns)
{
	bool known;

	KR_SCOPED_LOCK(&mount->attr_cache->lock);
	known = !kr_attr_cache_any_changes(mount->attr_cache, fid) && get_attr(mount, fid, ret_attr, ret_true_ns);
	mount->attr_cache->known += known;
	return known;
}

/* One entry, of FID, whose answer is bytes. */
static bool get_bytes(struct kr_mount *mount, const struct kr_fid *fid, const struct kr_attr_cache_key *key,
	int *ret_err, void *buffer, size_t size, size_t *ret_length)
{
	bool known;

	KR_SCOPED_LOCK(&mount->attr_cache->lock);
	known = get(mount, fid, key, ret_err, buffer, size, ret_length, NULL);
	mount->attr_cache->known += known;
	return known;
}

static bool attr_equal(const struct kr_attr *a, const struct kr_attr *b)
{
	return a->ino == b->ino && a->mode == b->mode && a->nlink == b->nlink && a->uid == b->uid && a->gid == b->gid &&
		a->rdev_major == b->rdev_major && a->rdev_minor == b->rdev_minor && a->size == b->size &&
		a->blocks == b->blocks && a->blksize == b->blksize && a->version == b->version &&
		kr_time_compare(a->atime, b->atime) == 0 && kr_time_compare(a->mtime, b->mtime) == 0 &&
		kr_time_compare(a->ctime, b->ctime) == 0;
}

uint64_t kr_attr_cache_left_ns(
	struct kr_mount *mount, const struct kr_fid *fid, const struct kr_attr *attr, uint64_t *ret_true_ns)
{
	struct kr_attr_cache *cache = mount->attr_cache;
	const struct kr_attr_cache_entry *entry;
	struct kr_attr_cache_key key;
	struct kr_attr cached;
	uint64_t now_ns, end_ns;

	kr_attr_cache_key(&key, KR_ATTR_CACHE_ATTR, fid);
	KR_SCOPED_LOCK(&cache->lock);
	now_ns = kr_clock_ns();
	entry = kr_attr_cache_store_get(&cache->store, key.bytes, key.length, now_ns);
	if (!entry || kr_attr_cache_any_changes(cache, fid))
		return 0;
	memcpy(&cached, kr_note_value(entry), sizeof(cached));
	if (!attr_equal(&cached, attr))
		return 0;
	*ret_true_ns = entry->true_ns;
	end_ns = KR_MIN(entry->asked_ns + cache->store.life_ns,
		atomic_load_explicit(&mount->fence_at_ns, memory_order_relaxed));
	return end_ns > now_ns ? end_ns - now_ns : 0;
}

bool kr_attr_cache_access(
	struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t mask, int *ret_err)
{
	struct kr_attr_cache_key key;

	kr_attr_cache_key_may(&key, fid, cred, mask);
	return get_bytes(mount, fid, &key, ret_err, NULL, 0, NULL);
}

bool kr_attr_cache_may_open(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, bool execute)
{
	struct kr_attr_cache_key key;
	int err;

	kr_attr_cache_key_may(&key, fid, cred, execute ? KR_ATTR_CACHE_EXECUTE : KR_ATTR_CACHE_READ);
	return get_bytes(mount, fid, &key, &err, NULL, 0, NULL) && err == 0;
}

bool kr_attr_cache_readlink(struct kr_mount *mount, const struct kr_fid *fid, char *target)
{
	struct kr_attr_cache_key key;

	kr_attr_cache_key(&key, KR_ATTR_CACHE_TARGET, fid);
	return get_bytes(mount, fid, &key, NULL, target, KR_PATH_MAX + 1, NULL);
}

static bool is_bare(struct kr_mount *mount, const struct kr_fid *fid)
{
	struct kr_attr_cache_key key;
	bool bare;

	kr_attr_cache_key(&key, KR_ATTR_CACHE_BARE, fid);
	return get_bytes(mount, fid, &key, NULL, &bare, sizeof(bare), NULL) && bare;
}

/* Names that every caller may ask for: only readers of a file may know whether it has user.*. */
static bool free_to_ask(const char *name)
{
	return strcmp(name, "system.posix_acl_access") == 0 || strcmp(name, "system.posix_acl_default") == 0 ||
		strncmp(name, "security.", strlen("security.")) == 0;
}

bool kr_attr_cache_no_xattr(struct kr_mount *mount, const struct kr_fid *fid, const char *name)
{
	return (!name || free_to_ask(name)) && is_bare(mount, fid);
}

bool kr_attr_cache_getxattr(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid,
	const char *name, int *ret_err, void *buffer, size_t size, size_t *ret_length)
{
	struct kr_attr_cache_key key;

	kr_attr_cache_key_xattr(&key, fid, cred, name);
	return get_bytes(mount, fid, &key, ret_err, buffer, size, ret_length);
}

bool kr_attr_cache_listxattr(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, void *buffer,
	size_t size, size_t *ret_length)
{
	struct kr_attr_cache_key key;

	kr_attr_cache_key_by(&key, KR_ATTR_CACHE_XATTR_LIST, fid, cred);
	return get_bytes(mount, fid, &key, NULL, buffer, size, ret_length);
}

static bool listing_changes(struct kr_mount *mount, const struct kr_fid *fid)
{
	KR_SCOPED_LOCK(&mount->attr_cache->lock);
	return kr_attr_cache_any_changes(mount->attr_cache, fid);
}

bool kr_attr_cache_readdir(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid,
	uint64_t cookie, void *buffer, size_t size, size_t *ret_length, bool *ret_end)
{
	KR_AUTO_FREE uint8_t *bytes = NULL;
	struct kr_attr_cache_key key;
	size_t length;

	if (listing_changes(mount, fid) || !(bytes = malloc(1 + size)))
		return false;
	kr_attr_cache_key_page(&key, fid, cred, cookie);
	if (!get_bytes(mount, fid, &key, NULL, bytes, 1 + size, &length) || length < 1)
		return false;
	*ret_end = bytes[0];
	*ret_length = length - 1;
	memcpy(buffer, bytes + 1, length - 1);
	return true;
}

json_t *kr_attr_cache_status(struct kr_mount *mount)
{
	struct kr_attr_cache *cache = mount->attr_cache;
	KR_SCOPED_LOCK(&cache->lock);

	return json_pack("{s:I,s:I,s:I,s:I,s:I}", "notes", (json_int_t)cache->store.by_key.count, "bytes",
		(json_int_t)cache->store.bytes, "known", (json_int_t)cache->known, "learnt", (json_int_t)cache->learnt,
		"forgets", (json_int_t)cache->forgets);
}
