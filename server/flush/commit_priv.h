/* Shared by commit.c, which knows the writers of each file, and syncs.c, which syncs files.  Loop thread. */
#ifndef KR_SERVER_COMMIT_PRIV_H
#define KR_SERVER_COMMIT_PRIV_H

#include "server/flush/data_state.h"

/* A node with uncommitted bytes of a file. */
struct kr_file_writer {
	struct kr_link link;  /* kr_commit.writers */
	uint32_t node;        /* 0: of ended sessions */
	uint64_t seq;         /* the highest of its journal that is applied */
	uint64_t first, last; /* its rounds that are uncommitted; 0: none */
	uint64_t told;        /* the latest STABLE */
	uint64_t owed; /* it sends its bytes up to here again; 0: nothing; OWES_ALL: a successor, before its RECLAIM */
	uint64_t owed_ns; /* ... since */
	uint64_t lost;    /* the latest of its rounds that a failed sync may have lost ... */
	int err;          /* ... with this error, while it owes them */
	unsigned telling; /* UNSTABLEs that it has not answered */
};
#define KR_WRITER_OWES_ALL UINT64_MAX

static inline struct kr_commit *kr_commit_of(const struct kr_sfile *file)
{
	return &file->data->commit;
}

/* --- commit.c --------------------------------------------------------------------------------- */

void kr_commit_register(struct kr_data *data);
/* NULL: NODE has no uncommitted bytes of FILE. */
struct kr_file_writer *kr_file_writer_find(const struct kr_sfile *file, uint32_t node);
/* WRITER has nothing uncommitted any more, and is freed.  The caller holds FILE. */
void kr_file_writer_committed(struct kr_sfile *file, struct kr_file_writer *writer);
/* Rounds up to the last good one are durable: STABLE, if that tells the node anything. */
void kr_file_writer_tell_stable(struct kr_sfile *file, struct kr_file_writer *writer);
/* The node's rounds after the last good one, up to the last applied, may be lost by ERR. */
void kr_file_writer_tell_unstable(struct kr_sfile *file, struct kr_file_writer *writer, int err);
/* Whether a node has not sent again what a failed sync may have lost. */
bool kr_file_writers_owe_lost_bytes(const struct kr_sfile *file);
/* Ends the session of a node that does not send what it owes, while others wait. */
void kr_file_writers_end_patience(const struct kr_sfile *file, uint64_t now_ns);

/* --- syncs.c ---------------------------------------------------------------------------------- */

/* Queues FILE; a running sync is followed by another.  _later: in a moment, unless a node waits for FILE. */
void kr_syncs_enqueue(struct kr_sfile *file);
void kr_syncs_enqueue_later(struct kr_sfile *file);
/* A node waits for FILE: its sync begins at once. */
void kr_syncs_hurry(struct kr_sfile *file);

#endif
