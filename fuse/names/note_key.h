/* Under what an answer is noted: what was asked, of which file, and, where the answer depends on it, by whom. */
#ifndef KR_FUSE_NOTE_KEY_H
#define KR_FUSE_NOTE_KEY_H

#include <stddef.h>

#include "common/base/types.h"

/* WHOLE, of a directory: all its names are noted. It is noted before any of them and never anew, so that it ends before they do. */
enum kr_note_kind { KR_NOTE_ENTRY, KR_NOTE_SEARCH, KR_NOTE_WHOLE, KR_NOTE_ATTR, KR_NOTE_BARE, KR_NOTE_XATTR, KR_NOTE_XATTR_LIST, KR_NOTE_MAY, KR_NOTE_TARGET, KR_NOTE_PAGE };

struct kr_note_key {
	size_t length;
	uint8_t bytes[1 + 1 + KR_FID_MAX + 12 + 4 * KR_GROUPS_MAX + KR_NAME_MAX + 1];
};

void kr_note_key(struct kr_note_key *key, enum kr_note_kind kind, const struct kr_fid *fid);
void kr_note_key_by(struct kr_note_key *key, enum kr_note_kind kind, const struct kr_fid *fid, const struct kr_cred *cred);
/* What a name stands for is the same for all who may search the directory, which is noted by itself (KR_NOTE_SEARCH). */
void kr_note_key_entry(struct kr_note_key *key, const struct kr_fid *parent, const char *name);
void kr_note_key_xattr(struct kr_note_key *key, const struct kr_fid *fid, const struct kr_cred *cred, const char *name);
void kr_note_key_may(struct kr_note_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint32_t mask);
void kr_note_key_page(struct kr_note_key *key, const struct kr_fid *fid, const struct kr_cred *cred, uint64_t cookie);

#endif
