/* See note_key.h. */
#include "fuse/names/note_key.h"

#include <assert.h>
#include <string.h>

static void add(struct kr_note_key *key, const void *bytes, size_t length)
{
	assert(length <= sizeof(key->bytes) - key->length);
	memcpy(key->bytes + key->length, bytes, length);
	key->length += length;
}

static void add_u32(struct kr_note_key *key, uint32_t value)
{
	add(key, &value, sizeof(value));
}

void kr_note_key(struct kr_note_key *key, enum kr_note_kind kind, const struct kr_fid *fid)
{
	key->length = 0;
	add(key, &(uint8_t){(uint8_t)kind}, 1);
	add(key, &fid->length, 1);
	add(key, fid->bytes, fid->length);
}

void kr_note_key_by(struct kr_note_key *key, enum kr_note_kind kind, const struct kr_fid *fid, const struct kr_cred *cred)
{
	kr_note_key(key, kind, fid);
	add_u32(key, cred->uid);
	add_u32(key, cred->gid);
	add_u32(key, cred->group_count);
	if (cred->group_count)
		add(key, cred->groups, cred->group_count * sizeof(cred->groups[0]));
}

void kr_note_key_entry(struct kr_note_key *key, const struct kr_fid *parent, const char *name)
{
	kr_note_key(key, KR_NOTE_ENTRY, parent);
	add(key, name, strlen(name));
}

void kr_note_key_xattr(struct kr_note_key *key, const struct kr_fid *fid, const struct kr_cred *cred, const char *name)
{
	kr_note_key_by(key, KR_NOTE_XATTR, fid, cred);
	add(key, name, strnlen(name, KR_NAME_MAX));
}

void kr_note_key_may(struct kr_note_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint32_t mask)
{
	kr_note_key_by(key, KR_NOTE_MAY, fid, cred);
	add_u32(key, mask);
}

void kr_note_key_page(struct kr_note_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint64_t cookie)
{
	kr_note_key_by(key, KR_NOTE_PAGE, fid, cred);
	add(key, &cookie, sizeof(cookie));
}
