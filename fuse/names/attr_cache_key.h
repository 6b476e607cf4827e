/* Under what an answer is noted: what was asked, of which file, and, where the answer depends on it, by whom. */
#ifndef KR_FUSE_ATTR_CACHE_KEY_H
#define KR_FUSE_ATTR_CACHE_KEY_H

#include <stddef.h>

#include "common/base/types.h"

/* WHOLE, of a directory: all its names are noted. It is noted before any of them and never anew, so that it ends before
 * they do. */
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
/* What a name stands for is the same for all who may search the directory, which is noted by itself
 * (KR_ATTR_CACHE_SEARCH). */
void kr_attr_cache_key_entry(struct kr_attr_cache_key *key, const struct kr_fid *parent, const char *name);
void kr_attr_cache_key_xattr(
	struct kr_attr_cache_key *key, const struct kr_fid *fid, const struct kr_cred *cred, const char *name);
void kr_attr_cache_key_may(
	struct kr_attr_cache_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint32_t mask);
void kr_attr_cache_key_page(
	struct kr_attr_cache_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint64_t cookie);

#endif
