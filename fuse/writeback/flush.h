/* The flush scheduler: when which file's bytes go to the server, and what happens to them there.
 *
 * Loop thread, unless said otherwise.  flush_plan.[ch] decides (pure); the flusher acts.  It sends up to KR_INLINE_MAX
 * bytes in the FLUSH itself, and more through chain.[ch] when ROUND comes.
 *
 * A byte's way: dirty (file->dirty, read as overlay) -> sent (a snapshot holds it too) -> applied (flush.applied) ->
 * durable, as STABLE says (released).  One FLUSH per file is in flight.  Invariants, each also at a kill -9 between any
 * two steps:
 *  - A byte is released only when durable at the server, overwritten by a journaled write, truncated or discarded by
 *    command.  Of what is released together the oldest goes first, because what is left is sent again.
 *  - A snapshot is everything of the file up to a seq S; writes after it have a higher seq and stay dirty.
 *  - Applied bytes become dirty again (flush_redirty.c), under what is newer, if a failed sync may have lost them
 *    (UNSTABLE), or if the session is lost.  No other node has got the file meanwhile: the server hands it over when
 *    its bytes are committed.  So it does not matter in which order nodes send them again.
 *  - What may be at the server already goes with RESEND (flush.resend).  After a start of the daemon that is all that
 *    the journal holds.
 *  - A refused flush (ENOSPC, EDQUOT, EROFS, EIO...) leaves the bytes dirty, and FILE is told (kr_file_flush_failed).
 *    close, fsync, `kairan flush` and a timer retry the flush.  ESTALE (the file is gone): the file is orphaned, and
 *    its bytes stay in the journal until kr_flush_discard.
 *  - RECLAIM may say `conflict`: then the bytes go to a conflict file (late.c), never into the file; the same for a
 *    file that was removed meanwhile.
 */
#ifndef KR_FUSE_FLUSH_H
#define KR_FUSE_FLUSH_H

#include <jansson.h>

#include "common/rpc/msg.h"
#include "fuse/writeback/flush_plan.h"
#include "fuse/journal/journal.h"
#include "fuse/base/loop.h"
#include "fuse/base/mount.h"
#include "fuse/file/flush_hooks.h"
#include "fuse/writeback/uncovered.h"

struct kr_claims;
struct kr_file;
struct kr_flusher;
struct kr_late;

enum kr_flush_reason {
	KR_FLUSH_AGE,
	KR_FLUSH_BACKLOG,
	KR_FLUSH_SPACE, /* the journal is full, or will be, or many files have bytes in it */
	KR_FLUSH_CLOSE,
	KR_FLUSH_SYNC,
	KR_FLUSH_COMMAND, /* kairan flush, umount */
};

/* One applied round of a file that is not known to be durable; its bytes are not read from here. */
struct kr_applied {
	struct kr_link link; /* in flush.applied, rounds ascending */
	uint64_t up_to, round;
	struct kr_extent_map extents; /* holds the journal's bytes */
	struct kr_time mtime;
	bool clear_suid;
};

/* This part's state of one file; kr_file.flush. */
struct kr_flush {
	struct kr_file *file;

	/* For FILE, loop thread. */
	uint64_t begun, taken,
		failed;        /* numbers of the last FLUSH begun, the last taken, the last failed or given up */
	uint32_t unseen, seen; /* flushes taken while others may have had older bytes cached; those of them that these
				  have dropped since */
	bool orphaned; /* gone at the server, or its bytes are damaged: only discard helps, but for unjudged ones */
	bool stale;    /* orphaned: a FLUSH has found no file, and the server may still tell that it was removed */
	bool unjudged; /* the server has not said yet whether its bytes may still go in (unjudged.c) */

	/* The flusher's own, loop thread. */
	struct kr_flush_plan plan;
	struct kr_list applied;     /* struct kr_applied */
	struct kr_flush_send *send; /* in flight; NULL: none */
	uint64_t resend;            /* a FLUSH may have applied dirty bytes up to here; 0: none */
	bool moved;                 /* late bytes of another file are here, below the number of others perhaps */
	struct kr_list unstable;    /* struct kr_flush_unstable: answered when its rounds are dirty again */
	struct kr_link busy;        /* in the flusher's list: has bytes to look after; the list holds a reference */
	struct kr_late *late; /* bytes on their way to a conflict file (late.c); NULL: none. The file is not flushed
				    meanwhile */
	bool uncovered;       /* unjudged: a lease was given back while the dirty bytes were refused */
	bool judging;         /* unjudged: the server is being asked ... */
	uint64_t judge_ns;    /* ... or the next time from here on; 0: never yet */
	uint64_t judge_generation;     /* the session's, when it was asked */
	struct kr_time unjudged_since; /* others' changes are those after this */
	bool power_lost; /* recovered after a loss of power: they are those after the oldest bytes, in any case */
	struct kr_uncovered_line
		uncovered_line; /* linked: the directory is to say that the dirty bytes are uncovered */
	int unjudged_err;       /* why, as the log has it; 0: it has nothing */
	uint64_t said_ns; /* the log says that the file has been unflushed since then (dirty_since_ns); 0: no message */

	/* Guarded by file->lock. */
	bool noticed;         /* the flusher knows that the file is dirty */
	bool backlog_noticed; /* the flusher knows that there is a backlog */
	bool backlog_held;    /* there is a backlog, but the burst goes on */
	uint64_t burst_ns;    /* the last kr_flush_burst; 0: none so far */
	bool notice_posted;
	uint64_t dirty_since_ns;
	struct kr_task notice_task;
};

/* MOUNT: after the rpc, hops and journal. Registers ROUND, ROUND_ABORT, STABLE and UNSTABLE. */
int kr_flusher_new(struct kr_mount *mount, struct kr_flusher **ret_flusher);
/* Loop thread: no new flushes, timers end, streams are dropped. Then, when the loop has run, kr_flusher_free. */
void kr_flusher_stop(struct kr_flusher *flusher);
void kr_flusher_free(struct kr_flusher *flusher);

/* What files call (kr_files_new). */
extern const struct kr_flush_hooks kr_flush_hooks;
/* Any thread, file->lock held: bytes were added to file->dirty. */
void kr_flush_dirtied(struct kr_file *file);
/* Any thread, file->lock held: a batch (batch.h), or a write or relaxed read through a handle that has batches, that
 * is, an MPI-IO aggregator's.  These are a burst: the links belong to the program, and the program reads its bytes back
 * from this node.  So a backlog of them is flushed only when nothing came for a second, or when it takes a quarter of
 * the journal.  Age counts as ever. */
void kr_flush_burst(struct kr_file *file);
/* Everything dirty now shall be applied soon. Ends in kr_file_step(file) with file->flushed_seq or file->error_count
 * grown (a file without dirty bytes: no step). */
void kr_flush_ask(struct kr_file *file, enum kr_flush_reason reason);
/* The FLUSH that is on its way to a server which takes requests BEHIND it, and brings all writes up to SEQ; 0: there is
 * none. */
uint64_t kr_flush_under_way(const struct kr_file *file, uint64_t seq);
/* Whether that FLUSH has been answered, and the server has the bytes. (False also when the server may have them, but
 * the node had to send another FLUSH.) */
bool kr_flush_was_taken(const struct kr_file *file, uint64_t under_way);
/* kr_file_may_flush(file) may have become true. */
void kr_flush_step(struct kr_file *file);
/* Dirty, sent or applied bytes: the file must stay in memory. Loop thread, file->lock not held. */
bool kr_flush_busy(struct kr_file *file);
/* A failed sync may have lost bytes that are not dirty again yet, because a FLUSH is on its way. */
static inline bool kr_flush_is_unstable(const struct kr_flush *flush)
{
	return !kr_list_empty(&flush->unstable);
}
/* The server has made this node's change of the attributes: bytes that the node sends again must not undo it.  MTIME:
 * the new one; NULL: not changed.  MODE: whether the mode was changed. */
void kr_flush_attributes_set(struct kr_file *file, const struct kr_time *mtime, bool mode);
/* The file's bytes that are not known to be on the server's disk. */
uint64_t kr_flush_unflushed(struct kr_file *file);
/* Gives up all unflushed bytes of the file, by explicit command. */
void kr_flush_discard(struct kr_file *file);

/* --- recovery (recovery.c) -------------------------------------------------------------------- */
/* Makes files of what the journal held at the start, before the mount serves anything: after kr_journal_open and before
 * kr_session_begin.  The session then reclaims these files, too, so the server serves none of them to other nodes
 * before their bytes are accounted for.  Takes RECOVERY's content and logs it; damage stays for status. */
void kr_recover(struct kr_mount *mount, struct kr_recovery *recovery);
/* The recovery of all files in a new session (recovery.c), for the session. */
const struct kr_session_hooks *kr_recovery_hooks(void);

/* --- all files -------------------------------------------------------------------------------- */
/* Flushes everything, the refused included. */
void kr_flusher_ask_all(struct kr_flusher *flusher, enum kr_flush_reason reason);
/* An append got -EAGAIN: flush everything and have it synced. Any thread. */
void kr_flusher_need_space(struct kr_flusher *flusher);
/* When every dirty file is refused, no space will come by itself: the errno with which to fail a write to FILE that
 * waits for space, else 0.  It is the errno that FILE's own bytes are refused with.  Where FILE has none, other files'
 * errors are not its programs' business: there is no room (-ENOSPC), and the log says whose bytes take it.  Loop
 * thread. */
int kr_flusher_hopeless(struct kr_flusher *flusher, struct kr_file *file);

struct kr_flusher_left {
	uint32_t files, refused_files, orphaned_files;
	uint64_t dirty, refused, orphaned; /* bytes not applied; refused and orphaned are among dirty */
	uint64_t unstable;                 /* applied, not known to be stable */
	uint32_t damages;                  /* set aside by the recovery */
	uint64_t conflict_files;
	uint64_t oldest_ns; /* since when a file has had bytes without a flush in between (kr_clock_ns); 0: none has */
};
void kr_flusher_left(struct kr_flusher *flusher, struct kr_flusher_left *ret_left);
/* {"files": [{"path", "fid", "dirty", "unstable", "state", "error"}...], "damage": [...], "journal": {...}}; owned
 * by the caller. */
json_t *kr_flusher_status(struct kr_flusher *flusher);
/* The array "files" of that with UID's own files alone, KR_FLUSH_SHOWN_MAX at most. */
enum { KR_FLUSH_SHOWN_MAX = 1000 };
json_t *kr_flusher_files_of(struct kr_flusher *flusher, uint32_t uid);
/* "journal" of that alone; owned by the caller. */
json_t *kr_flusher_journal_status(struct kr_flusher *flusher);
/* The administrator has seen what the recovery found damaged: no longer shown, its segments may go. */
void kr_flusher_discard_damage(struct kr_flusher *flusher);
/* A busy file whose hint is PATH or whose fid (hex) it is; NULL. Borrowed. */
struct kr_file *kr_flusher_find(struct kr_flusher *flusher, const char *path);

#endif
