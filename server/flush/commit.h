/* Commits applied bytes: syncs files after rounds, tells their writers STABLE, and notes in the lease table which nodes
 * are uncommitted (docs/recovery.md; leases/lease_table.h).
 *
 * A writer of a file is uncommitted from when a round with its bytes is applied, or from RECLAIM's `resend`, until it
 * has answered STABLE for all of that.  It is *owed* while its bytes may be lost, so that it must send them again:
 * after a failed sync (UNSTABLE) or a start of the server (RECLAIM).  A FLUSH up to the owed number ends that, and so
 * does the refusal of a FLUSH.  It also ends when the node gives a lease back with refused bytes: the server judges
 * these later (leases/cover.h), and others do not wait.  When a session ends, its entry passes to its successor
 * (leases.h), or else to node 0.  Node 0 commits when a sync succeeds: nobody has to hear of it.  If a sync has failed,
 * only the page cache may have such bytes.
 * So the server writes the file's bytes again, and syncs, until that succeeds.
 *
 * Files whose sync failed, and has not succeeded since, stand in `failed` of the state directory before anybody is
 * told. The next instance writes these again, and syncs them, before its grace period ends.
 *
 * Loop thread; the syncs run in libuv's pool.  A file is synced KR_COMMIT_LATER_MS after a round, together with those
 * that wait then, or at once when anybody wants it: fsync, or another node that waits for the file.  Rounds that come
 * during a sync are in the next one.  When many files wait, one syncfs serves all of them.
 */
#ifndef KR_SERVER_COMMIT_H
#define KR_SERVER_COMMIT_H

#include "common/base/list.h"
#include "common/base/types.h"

struct kr_data;
struct kr_flush_part;
struct kr_server;
struct kr_session;
struct kr_sfile;

enum {
	KR_COMMIT_PARALLEL = 4,    /* syncs at a time */
	KR_COMMIT_LATER_MS = 10,   /* for so long the server gathers files that no node waits for */
	KR_COMMIT_MANY = 8,        /* one job syncs so many; one syncfs syncs more */
	KR_COMMIT_TOGETHER = 4096, /* at most */
	KR_COMMIT_RETRY_MS = 1000, /* between two tries to repair the losses of a failed sync */
};

/* ERR: 0, or the negative errno of the sync.  Called from the loop, never from inside kr_commit_wait. */
typedef void (*kr_commit_fn)(void *context, int err);

/* A file's part, embedded in struct kr_sfile_data. */
struct kr_commit {
	struct kr_list writers; /* struct kr_file_writer of commit_priv.h */
	struct kr_link writing; /* in kr_data.writing while there are writers */
	struct kr_list waiters; /* struct waiter of syncs.c */
	struct kr_link queued;  /* in kr_syncs.queue or .later; that, or running, holds the file */
	bool later;             /* in kr_syncs.later */
	uint64_t applied;       /* the last round applied */
	uint64_t good;          /* the last round known to be stable */
	uint64_t lost;          /* rounds up to here, which ran when a sync failed, count as lost with it */
	bool running;           /* a sync is under way */
	bool again;             /* it is to be followed by another */
	bool full;              /* the next one syncs metadata, too */
	bool rewriting;         /* no round begins: the bytes are written again from the page cache */
	bool failed;            /* what a failed sync may have lost is not repaired */
	bool former;            /* ... of a former instance, and not tried yet */
	struct kr_link failing; /* in kr_syncs.failing while `failed`; holds the file */
	uint64_t retry_ns;
};

/* All that has been applied to FILE (and any other change made before this call) is on stable storage when FN runs.
 * DATA_ONLY: fdatasync suffices.  FILE is kept alive meanwhile. */
void kr_commit_wait(struct kr_sfile *file, bool data_only, kr_commit_fn fn, void *context);
/* RECLAIM's `resend` (0: nothing): SESSION's node sends its bytes up to SEQ again.  Until then it is uncommitted. */
void kr_commit_owe(struct kr_sfile *file, struct kr_session *session, uint64_t seq);
/* Up to which number this instance remembers to have applied the journal NODE_ID to FILE, with no sync failed since;
 * 0: nothing is known.  It is durable after a further kr_commit_wait that succeeds. */
uint64_t kr_commit_applied_seq(const struct kr_sfile *file, const uint8_t node_id[16]);
/* Up to which number rounds of this instance brought bytes of the journal NODE_ID to FILE, whatever became of them. */
uint64_t kr_commit_reached_seq(const struct kr_sfile *file, const uint8_t node_id[16]);
/* Whether this instance remembers all that it has applied. */
bool kr_commit_remembers_all(const struct kr_data *data);
/* Whether each file whose sync failed in a former instance has been tried again.  A file whose sync still fails is
 * uncommitted, of node 0.  When that becomes true later, the flush room calls sessions->hooks.end_grace (which may be
 * not due yet for other reasons). */
bool kr_commit_recovered(const struct kr_data *data);
/* The error of the failed sync whose losses SESSION's node has not sent again; 0: there is none. */
int kr_commit_error(const struct kr_sfile *file, const struct kr_session *session);
/* The sync of FILE failed, and may have lost a change that is in no journal: no other node gets FILE before the server
 * has repaired it. */
void kr_commit_lost_change(struct kr_sfile *file);
/* FILE has neither name nor open: no program can read its bytes. */
void kr_commit_gone(struct kr_sfile *file);

/* --- for the flush room ----------------------------------------------------------------------- */

/* Opens the log of failed syncs of former instances.  0 or -errno with a reason. */
int kr_commit_init(struct kr_data *data);
/* Drops queued syncs and their references to files. */
void kr_commit_fini(struct kr_data *data);
void kr_commit_file_init(struct kr_sfile *file);
/* ROUND of FILE has failed, and may have applied some of its bytes.  These are nobody's, since the nodes send them
 * again; but others may see them, so they have to be on the disk first. */
void kr_commit_applied_in_part(struct kr_sfile *file, uint64_t round);
/* ROUND of FILE, with PART's bytes, is applied. */
void kr_commit_applied(struct kr_sfile *file, const struct kr_flush_part *part, uint64_t round);
/* A FLUSH of SESSION's node is refused: it does not owe its bytes any more. */
void kr_commit_refused(struct kr_sfile *file, const struct kr_session *session);
/* Whether SESSION's node is uncommitted, or would be without --commit=never. */
bool kr_commit_is_writer(const struct kr_sfile *file, const struct kr_session *session);
/* Tries failed files again. */
void kr_commit_tick(struct kr_data *data, uint64_t now_ns);
/* No sync is queued or under way. */
bool kr_commit_idle(const struct kr_data *data);
void kr_fsyncs_register(struct kr_data *data);

#endif
