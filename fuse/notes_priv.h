/* What notes.c and notes_learn.c share. */
#ifndef KR_FUSE_NOTES_PRIV_H
#define KR_FUSE_NOTES_PRIV_H

#include <pthread.h>

#include "fuse/note_store.h"
#include "fuse/notes.h"

struct kr_notes {
	pthread_mutex_t lock;
	struct kr_note_store store; /* [lock] */
	uint64_t known, learnt, forgets; /* [lock] */
};

#endif
