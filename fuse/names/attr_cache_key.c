/* See attr_cache_key.h. */
#include "fuse/names/attr_cache_key.h"

#include <assert.h>
#include <string.h>

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
