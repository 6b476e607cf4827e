/* What notes.c, notes_learn.c and notes_change.c share. */
#ifndef KR_FUSE_NOTES_PRIV_H
#define KR_FUSE_NOTES_PRIV_H

#include <pthread.h>

#include "fuse/names/note_store.h"
#include "fuse/names/notes.h"

struct kr_notes {
	pthread_mutex_t lock;
	struct kr_note_store store; /* [lock] */
	struct kr_list changes;     /* [lock] struct kr_note_change, of our own, under way */
	uint64_t known, learnt, forgets; /* [lock] */
};

/* [lock] Whether a change of ours is under way: of FID altogether; of that, or of any name in it; of NAME in DIR, or DIR altogether. */
bool kr_notes_all_changes(const struct kr_notes *notes, const struct kr_fid *fid);
bool kr_notes_any_changes(const struct kr_notes *notes, const struct kr_fid *fid);
bool kr_notes_name_changes(const struct kr_notes *notes, const struct kr_fid *dir, const char *name);

#endif
