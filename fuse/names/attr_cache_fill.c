/* Notes: what answers teach (see attr_cache.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/rpc/lookups.h"
#include "common/rpc/msg.h"
#include "common/rpc/attr_cache.h"
#include "fuse/names/attr_cache_priv.h"
#include "fuse/names/kernel_attrs.h"

/* One answer that is being learnt. */
struct answer {
	struct kr_attr_cache *cache;
	uint64_t asked_ns, heard_ns;
	int err;
	uint16_t flags;
};

static bool put(const struct answer *answer, const struct kr_fid *fid, const struct kr_attr_cache_key *key, int err,
	const void *value, size_t length)
{
	answer->cache->learnt++;
	return kr_attr_cache_store_put(&answer->cache->store, kr_attr_cache_bucket(fid), key->bytes, key->length,
		answer->asked_ns, err, value, length);
}

static void drop(struct kr_attr_cache *cache, const struct kr_attr_cache_key *key)
{
	kr_attr_cache_store_drop(&cache->store, key->bytes, key->length);
}

static void learn_bare(const struct answer *answer, const struct kr_fid *fid, bool bare)
{
	struct kr_attr_cache_key key;

	kr_attr_cache_key(&key, KR_ATTR_CACHE_BARE, fid);
	put(answer, fid, &key, 0, &bare, sizeof(bare));
}

static void learn_attr(const struct answer *answer, const struct kr_fid *fid, const struct kr_attr *attr)
{
	bool bare = answer->flags & KR_FRAME_BARE;
	struct kr_attr_cache_key key;

	if (answer->err || !(answer->flags & KR_FRAME_CACHEABLE_ATTR))
		return;
	kr_attr_cache_key(&key, KR_ATTR_CACHE_ATTR, fid);
	put(answer, fid, &key, 0, attr, sizeof(*attr));
	if (bare || S_ISDIR(attr->mode)) /* only of directories is always said what they are */
		learn_bare(answer, fid, bare);
}

/* Whether WHOLE of DIR does not have NAME, which exists, and would be valid longer than the note of NAME. */
static bool outlasted_by_whole(const struct answer *answer, const struct kr_fid *dir, const char *name)
{
	const struct kr_attr_cache_entry *whole;
	struct kr_attr_cache_key key;

	kr_attr_cache_key(&key, KR_ATTR_CACHE_WHOLE, dir);
	whole = kr_attr_cache_store_get(&answer->cache->store, key.bytes, key.length, kr_clock_ns());
	return whole && whole->asked_ns >= answer->asked_ns && !kr_attr_cache_had(whole, name);
}

static void learn_entry(const struct answer *answer, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, const struct kr_fid *fid)
{
	struct kr_attr_cache_key key;

	if (!(answer->flags & KR_FRAME_CACHEABLE) || (answer->err && answer->err != -ENOENT))
		return;
	kr_attr_cache_key_by(&key, KR_ATTR_CACHE_SEARCH, parent, cred);
	put(answer, parent, &key, 0, NULL, 0);
	kr_attr_cache_key_entry(&key, parent, name);
	if (put(answer, parent, &key, answer->err, fid, answer->err ? 0 : sizeof(*fid)) &&
		(answer->err || !outlasted_by_whole(answer, parent, name)))
		return;
	kr_attr_cache_key(&key, KR_ATTR_CACHE_WHOLE, parent);
	drop(answer->cache, &key);
}

/* What the file has become by our own change, which has come before what we do from now on (kr_file_after_change counts
 * it as of HEARD_NS): the server lets it be noted only if no other change has crossed this one. */
static void learn_changed(const struct answer *answer, const struct kr_fid *fid, const struct kr_attr *attr)
{
	struct kr_attr_cache_key key;

	learn_attr(answer, fid, attr);
	if (answer->err || !(answer->flags & KR_FRAME_CACHEABLE_ATTR))
		return;
	kr_attr_cache_key(&key, KR_ATTR_CACHE_ATTR, fid);
	kr_attr_cache_store_confirm(&answer->cache->store, key.bytes, key.length, answer->heard_ns + 1);
}

/* Of a directory that we have changed.  Our change of a name leaves it bare, or not.  Where that is not known GETATTR
 * shall ask the server, which says both. */
static void learn_dir(const struct answer *answer, const struct kr_fid *dir, const struct kr_attr *attr)
{
	const struct kr_attr_cache_entry *known;
	struct kr_attr_cache_key key;

	if (!(answer->flags & KR_FRAME_CACHEABLE) || attr->ino == 0)
		return;
	kr_attr_cache_key(&key, KR_ATTR_CACHE_BARE, dir);
	known = kr_attr_cache_store_get(&answer->cache->store, key.bytes, key.length, kr_clock_ns());
	if (!known)
		return;
	learn_bare(answer, dir, *(const bool *)kr_note_value(known));
	kr_attr_cache_key(&key, KR_ATTR_CACHE_ATTR, dir);
	put(answer, dir, &key, 0, attr, sizeof(*attr));
}

/* NAME in DIR is FILE now, which we have made so. */
static void learn_own_name(const struct answer *answer, const struct kr_cred *cred, const struct kr_fid *dir,
	const char *name, const struct kr_fid *file, const struct kr_attr *attr, const struct kr_attr *dir_attr)
{
	learn_entry(answer, cred, dir, name, file);
	learn_attr(answer, file, attr);
	learn_dir(answer, dir, dir_attr);
}

static void learn_bytes(const struct answer *answer, const struct kr_fid *fid, const struct kr_attr_cache_key *key,
	const void *bytes, size_t length)
{
	if (answer->flags & KR_FRAME_CACHEABLE)
		put(answer, fid, key, answer->err, bytes, answer->err ? 0 : length);
}

static void learn_xattr(
	const struct answer *answer, const struct kr_getxattr_request *asked, const struct kr_getxattr_reply *said)
{
	struct kr_attr_cache_key key;

	if (answer->err ? answer->err != -ENODATA && answer->err != -EOPNOTSUPP : said->value.length != said->length)
		return; /* only its length */
	kr_attr_cache_key_xattr(&key, &asked->file, &asked->cred, asked->name);
	learn_bytes(answer, &asked->file, &key, said ? said->value.bytes : NULL, said ? said->value.length : 0);
}

static void learn_xattr_names(
	const struct answer *answer, const struct kr_listxattr_request *asked, const struct kr_listxattr_reply *said)
{
	struct kr_attr_cache_key key;

	kr_attr_cache_key_by(&key, KR_ATTR_CACHE_XATTR_LIST, &asked->file, &asked->cred);
	if (said->names.length == said->length) /* all of them */
		learn_bytes(answer, &asked->file, &key, said->names.bytes, said->names.length);
}

static void learn_access(const struct answer *answer, const struct kr_access_request *asked)
{
	struct kr_attr_cache_key key;

	kr_attr_cache_key_may(&key, &asked->file, &asked->cred, asked->mask);
	if (!answer->err || answer->err == -EACCES)
		learn_bytes(answer, &asked->file, &key, NULL, 0);
}

static void learn_open(const struct answer *answer, const struct kr_open_request *asked)
{
	enum { EXECUTE = 8 /* `flags` of OPEN (msgs.def) */ };
	struct kr_attr_cache_key key;

	kr_attr_cache_key_may(
		&key, &asked->file, &asked->cred, asked->flags & EXECUTE ? KR_ATTR_CACHE_EXECUTE : KR_ATTR_CACHE_READ);
	learn_bytes(answer, &asked->file, &key, NULL, 0);
}

static int compare_hashes(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x)); /* notes are not aligned */
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

bool kr_attr_cache_had(const struct kr_attr_cache_entry *whole, const char *name)
{
	uint64_t hash = kr_hash_bytes(name, strlen(name));

	return bsearch(&hash, kr_note_value(whole), whole->length / sizeof(hash), sizeof(hash), compare_hashes);
}

/* ENTRIES are all names in DIR.  What is malformed is no answer. */
static void learn_whole(const struct answer *answer, const struct kr_fid *dir, const struct kr_bytes *entries)
{
	enum { ENTRY_BYTES_MIN = 8 + 8 + 1 + 1 + 1 };
	KR_AUTO_FREE uint64_t *hashes = malloc((entries->length / ENTRY_BYTES_MIN + 1) * sizeof(*hashes));
	struct kr_attr_cache_key key;
	struct kr_reader r;
	size_t count = 0;

	kr_reader_init(&r, entries->bytes, entries->length);
	while (hashes && kr_reader_left(&r) > 0) {
		size_t length = (kr_take_u64(&r), kr_take_u64(&r), kr_take_u8(&r), kr_take_u8(&r));
		const uint8_t *name = kr_take_bytes(&r, length);

		if (!name || !length)
			return;
		hashes[count++] = kr_hash_bytes(name, length);
	}
	if (!hashes)
		return;
	qsort(hashes, count, sizeof(*hashes), compare_hashes);
	kr_attr_cache_key(&key, KR_ATTR_CACHE_WHOLE, dir);
	put(answer, dir, &key, 0, hashes, count * sizeof(*hashes));
}

static void learn_page(
	const struct answer *answer, const struct kr_readdir_request *asked, const struct kr_readdir_reply *said)
{
	KR_AUTO_FREE uint8_t *bytes = NULL;
	struct kr_attr_cache_key key;

	if (answer->err || !(answer->flags & KR_FRAME_CACHEABLE) || !(bytes = malloc(1 + said->entries.length)))
		return;
	if (answer->flags & KR_FRAME_CACHEABLE_ATTR)
		learn_whole(answer, &asked->file, &said->entries);
	bytes[0] = said->end;
	if (said->entries.length)
		memcpy(bytes + 1, said->entries.bytes, said->entries.length);
	kr_attr_cache_key_page(&key, &asked->file, &asked->cred, asked->cookie);
	kr_attr_cache_store_put_list(&answer->cache->store, kr_attr_cache_bucket(&asked->file), key.bytes, key.length,
		answer->asked_ns, bytes, 1 + said->entries.length);
	answer->cache->learnt++;
}

/* Each as if it had been the answer to a LOOKUP of its own. What is malformed ends it. */
static void learn_found(
	const struct answer *answer, const struct kr_lookups_request *asked, const struct kr_lookups_reply *said)
{
	struct answer one = *answer;
	struct kr_reader names, list;
	struct kr_found found;
	char name[KR_NAME_MAX + 1];
	int last = -1, at = -1;

	kr_reader_init(&names, asked->names.bytes, asked->names.length);
	kr_reader_init(&list, said->found.bytes, said->found.length);
	while (kr_lookups_take_found(&list, &last, &found) > 0) {
		for (; at < found.number; at++) {
			if (kr_lookups_take_name(&names, name) <= 0)
				return;
		}
		one.err = found.kind == KR_FOUND_NOTHING ? -ENOENT : 0;
		one.flags = KR_FRAME_CACHEABLE | KR_FRAME_CACHEABLE_ATTR |
			(found.kind == KR_FOUND_BARE ? KR_FRAME_BARE : 0);
		learn_entry(&one, &asked->cred, &asked->parent, name, &found.fid);
		learn_attr(&one, &found.fid, &found.attr);
	}
}

/* What was made just now is empty. */
static void learn_made(const struct answer *answer, const struct kr_make_reply *made)
{
	struct kr_attr_cache_key key;

	if (!(answer->flags & KR_FRAME_CACHEABLE_ATTR) || !S_ISDIR(made->attr.mode))
		return;
	kr_attr_cache_key(&key, KR_ATTR_CACHE_WHOLE, &made->file);
	put(answer, &made->file, &key, 0, NULL, 0);
}

static void learn_removed(
	const struct answer *answer, const struct kr_remove_request *asked, const struct kr_remove_reply *said)
{
	struct answer none = *answer;

	none.err = -ENOENT;
	learn_entry(&none, &asked->cred, &asked->parent, asked->name, NULL);
	learn_dir(answer, &asked->parent, &said->dir);
}

/* --- our own changes -------------------------------------------------------------------------- */

/* NAME in DIR stands for something else now: for what is LEARNT from the same answer, or nobody knows. */
static void changed_name(struct kr_attr_cache *cache, const struct kr_fid *dir, const char *name, bool learnt)
{
	struct kr_attr_cache_key key;

	if (!learnt) {
		kr_attr_cache_key(&key, KR_ATTR_CACHE_WHOLE, dir);
		drop(cache, &key);
	}
	kr_attr_cache_key_entry(&key, dir, name);
	drop(cache, &key);
	kr_attr_cache_key(&key, KR_ATTR_CACHE_ATTR, dir);
	drop(cache, &key);
	kr_attr_cache_store_forget_lists(&cache->store, kr_attr_cache_bucket(dir));
}

/* The file that NAME in PARENT stood for is NEW_NAME in NEW_PARENT now, if that is LEARNT.  Just before, a program on
 * the server may have made NAME stand for another file.  We hear of that later, and forget PARENT: so only a file that
 * stays there may be known. */
static void renamed(const struct answer *answer, const struct kr_rename_request *asked, bool learnt)
{
	struct kr_attr_cache *cache = answer->cache;
	const struct kr_attr_cache_entry *entry;
	struct answer none = *answer;
	struct kr_attr_cache_key key;
	struct kr_fid file;
	bool known;

	kr_attr_cache_key_entry(&key, &asked->parent, asked->name);
	entry = kr_attr_cache_store_get(&cache->store, key.bytes, key.length, kr_clock_ns());
	known = learnt && entry && !entry->err && kr_fid_equal(&asked->parent, &asked->new_parent);
	if (known)
		memcpy(&file, kr_note_value(entry), sizeof(file));
	changed_name(cache, &asked->parent, asked->name, learnt);
	changed_name(cache, &asked->new_parent, asked->new_name, known);
	none.err = -ENOENT;
	if (learnt)
		learn_entry(&none, &asked->cred, &asked->parent, asked->name, NULL);
	if (known)
		learn_entry(answer, &asked->cred, &asked->new_parent, asked->new_name, &file);
}

/* What the server leaves to us to forget (msgs.def, CACHEABLE REPLIES), whatever the request has come to. */
static void forget_own(const struct answer *answer, uint16_t type, const union kr_any_msg *asked)
{
	bool learnt = !answer->err && answer->flags & KR_FRAME_CACHEABLE;
	struct kr_attr_cache *cache = answer->cache;
	struct kr_attr_cache_key key;
	KR_SCOPED_LOCK(&cache->lock);

	switch (type) {
	case KR_MSG_CREATE:
		changed_name(cache, &asked->create_request.parent, asked->create_request.name, learnt);
		break;
	case KR_MSG_MAKE:
		changed_name(cache, &asked->make_request.parent, asked->make_request.name, learnt);
		break;
	case KR_MSG_REMOVE:
		changed_name(cache, &asked->remove_request.parent, asked->remove_request.name, learnt);
		break;
	case KR_MSG_LINK:
		changed_name(cache, &asked->link_request.parent, asked->link_request.name, learnt);
		kr_attr_cache_key(&key, KR_ATTR_CACHE_ATTR, &asked->link_request.file);
		drop(cache, &key);
		break;
	case KR_MSG_RENAME:
		renamed(answer, &asked->rename_request, learnt);
		break;
	default:
		break;
	}
}

/* --- replies ---------------------------------------------------------------------------------- */

static bool changes_names(uint16_t type)
{
	return type == KR_MSG_CREATE || type == KR_MSG_MAKE || type == KR_MSG_REMOVE || type == KR_MSG_LINK ||
		type == KR_MSG_RENAME;
}

/* What a success teaches. */
static void learn_success(
	const struct answer *answer, uint16_t type, const union kr_any_msg *asked, const union kr_any_msg *said)
{
	struct kr_attr_cache_key key;

	switch (type) {
	case KR_MSG_LOOKUPS:
		learn_found(answer, &asked->lookups_request, &said->lookups_reply);
		break;
	case KR_MSG_MAKE:
		learn_own_name(answer, &asked->make_request.cred, &asked->make_request.parent, asked->make_request.name,
			&said->make_reply.file, &said->make_reply.attr, &said->make_reply.dir);
		learn_made(answer, &said->make_reply);
		break;
	case KR_MSG_CREATE:
		learn_own_name(answer, &asked->create_request.cred, &asked->create_request.parent,
			asked->create_request.name, &said->create_reply.file, &said->create_reply.attr,
			&said->create_reply.dir);
		break;
	case KR_MSG_LINK:
		learn_own_name(answer, &asked->link_request.cred, &asked->link_request.parent, asked->link_request.name,
			&asked->link_request.file, &said->link_reply.attr, &said->link_reply.dir);
		break;
	case KR_MSG_REMOVE:
		learn_removed(answer, &asked->remove_request, &said->remove_reply);
		break;
	case KR_MSG_GETATTR:
		learn_attr(answer, &asked->getattr_request.file, &said->getattr_reply.attr);
		break;
	case KR_MSG_SETATTR:
		learn_changed(answer, &asked->setattr_request.file, &said->setattr_reply.attr);
		break;
	case KR_MSG_OPEN:
		learn_open(answer, &asked->open_request);
		break;
	case KR_MSG_READLINK:
		kr_attr_cache_key(&key, KR_ATTR_CACHE_TARGET, &asked->readlink_request.file);
		learn_bytes(answer, &asked->readlink_request.file, &key, said->readlink_reply.target,
			strlen(said->readlink_reply.target) + 1);
		break;
	case KR_MSG_LISTXATTR:
		learn_xattr_names(answer, &asked->listxattr_request, &said->listxattr_reply);
		break;
	default:
		break;
	}
}

/* Some errors teach something too: what is not there, what may not be done. */
static void learn(
	const struct answer *answer, uint16_t type, const union kr_any_msg *asked, const union kr_any_msg *said)
{
	KR_SCOPED_LOCK(&answer->cache->lock);

	switch (type) {
	case KR_MSG_LOOKUP:
		learn_entry(answer, &asked->lookup_request.cred, &asked->lookup_request.parent,
			asked->lookup_request.name, answer->err ? NULL : &said->lookup_reply.file);
		if (!answer->err)
			learn_attr(answer, &said->lookup_reply.file, &said->lookup_reply.attr);
		break;
	case KR_MSG_ACCESS:
		learn_access(answer, &asked->access_request);
		break;
	case KR_MSG_GETXATTR:
		learn_xattr(answer, &asked->getxattr_request, answer->err ? NULL : &said->getxattr_reply);
		break;
	case KR_MSG_READDIR:
		learn_page(answer, &asked->readdir_request, answer->err ? NULL : &said->readdir_reply);
		break;
	default:
		if (!answer->err)
			learn_success(answer, type, asked, said);
	}
}

void kr_attr_cache_opened(struct kr_mount *mount, const struct kr_fid *fid, const struct kr_attr *now)
{
	struct kr_attr_cache *cache = mount->attr_cache;
	const struct kr_attr_cache_entry *entry;
	struct kr_attr attr;
	struct kr_attr_cache_key key;

	kr_attr_cache_key(&key, KR_ATTR_CACHE_ATTR, fid);
	KR_SCOPED_LOCK(&cache->lock);
	entry = kr_attr_cache_store_get(&cache->store, key.bytes, key.length, kr_clock_ns());
	if (!entry)
		return;
	memcpy(&attr, kr_note_value(entry), sizeof(attr));
	if (kr_time_compare(now->atime, attr.atime) <= 0)
		return;
	attr.atime = now->atime;
	kr_attr_cache_store_amend(&cache->store, entry, &attr);
	kr_kernel_attrs_drop_held(mount, fid);
}

void kr_attr_cache_learn(struct kr_mount *mount, uint16_t type, const union kr_any_msg *asked, int err,
	const void *reply, uint16_t flags, uint64_t asked_ns, uint64_t heard_ns)
{
	const struct answer answer = {
		.cache = mount->attr_cache, .asked_ns = asked_ns, .heard_ns = heard_ns, .err = err, .flags = flags};

	if (!(flags & (KR_FRAME_CACHEABLE | KR_FRAME_CACHEABLE_ATTR)) && !changes_names(type))
		return;
	forget_own(&answer, type, asked);
	learn(&answer, type, asked, reply);
}
