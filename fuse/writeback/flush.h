/* The flush scheduler: when which file's bytes go to the server, and what happens to them there.
 *
 * All in the loop thread but kr_flush_dirtied and kr_flush_init. flush_plan.[ch] decides (pure), and this part acts.
 * It sends FLUSH inline up to KR_INLINE_MAX bytes, else through chain.[ch] when ROUND comes.  It handles STABLE,
 * UNSTABLE, retries and the recovery of the session.
 *
 * A byte's way: dirty (file->dirty, read as overlay) -> sent (a snapshot holds it too) -> applied (flush.applied, for a
 * replay only) -> stable (released).  One FLUSH per file is in flight. Invariants, each also at a kill -9 between any
 * two steps:
 *  - A byte is released only when stable at the server, overwritten by a journaled write, truncated or discarded by
 *    command.
 *  - A snapshot is everything of the file up to a seq S; writes after it have a higher seq and stay dirty.  On
 *    "applied" the journal's APPLIED record (S, round, boot) is written before dirty loses the bytes; without it a new
 *    start would find them dirty and ask RECLAIM, whose applied_seq says the same.
 *  - What was applied is never sent again in the same boot of the server: another node may have overwritten it since.
 *    So there are two ways after a lost answer to a FLUSH.  On the same session the node sends the FLUSH again (the
 *    server knows its request id).  At a server that lost the session, RECLAIM's applied_seq settles the FLUSH before
 *    anything is resent.
 *  - After the server's machine booted anew, the node sends applied entries of the old boot as REPLAY with their round.
 *    They go before anything else of the file.
 *  - UNSTABLE: the node replays the named entries in the order of rounds, or makes them dirty again, below newer
 *    writes.  They do not become dirty while entries of a former boot are to be replayed (flush_unstable.c).  Their
 *    APPLIED records die first.
 *  - A refused flush (ENOSPC, EDQUOT, EROFS, EIO...) leaves the bytes dirty, and FILE is told (kr_file_flush_failed).
 *    close, fsync, `kairan flush` and a timer retry the flush.  ESTALE (the file is gone): the file is orphaned, and
 *    its bytes stay in the journal until kr_flush_discard.
 *  - After the session had expired RECLAIM may say `conflict`: then the bytes go to a conflict file (late.c), never
 *    into the file; the same for a file that was removed meanwhile.
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
	KR_FLUSH_SPACE, /* the journal is full */
	KR_FLUSH_CLOSE,
	KR_FLUSH_SYNC,
	KR_FLUSH_COMMAND, /* kairan flush, umount */
};

/* This part's state of one file; kr_file.flush. */
struct kr_flush {
	struct kr_file *file;

	/* For FILE, loop thread. */
	uint64_t begun, taken, failed; /* FLUSHes of dirty bytes: how many, and the last that was answered well, and
					  otherwise or not */
	uint32_t unseen, seen; /* flushes taken while others may have had older bytes cached; those of them that these
				  have dropped since */
	bool orphaned; /* gone at the server, or its bytes are damaged: only discard helps, but for unjudged ones */
	bool unjudged; /* the server has not said yet whether its bytes may still go in (unjudged.c) */

	/* The flusher's own, loop thread. */
	struct kr_flush_plan plan;
	struct kr_list applied;  /* struct kr_applied, rounds ascending */
	struct kr_list sends;    /* struct kr_flush_send, in flight: at most one, or replays, rounds ascending */
	struct kr_link busy;     /* in the flusher's list: has bytes to look after; the list holds a reference */
	struct kr_late *late;    /* bytes on their way to a conflict file (late.c); NULL: none. The file is not flushed
				    meanwhile */
	uint64_t stable_seq;     /* the last write of what has become stable */
	uint64_t applied_ns;     /* when the last entry became applied */
	bool confirming;         /* an FSYNC is on its way, to learn what is stable */
	uint64_t lost_round;     /* of UNSTABLE: rounds up to this one that we have not heard of by now are lost */
	bool unstable;           /* entries will be dirty again: done when what is in flight is answered... */
	uint64_t unstable_after; /* ... for the rounds after this one... */
	int unstable_err;        /* ... because of this */
	bool uncovered;          /* unjudged: the dirty bytes are, a lease was given back while they were refused ... */
	bool keeps_replays;      /* ... and so are those to be replayed, or will be when none is on its way */
	bool judging;            /* unjudged: the server is being asked ... */
	uint64_t judge_ns;       /* ... or the next time from here on; 0: never yet */
	uint64_t judge_generation;     /* the session's, when it was asked */
	struct kr_time unjudged_since; /* others' changes are those after this */
	struct kr_time claimed_since;  /* ... as it was when this session made its claims, of which
					  applied->before_claims tells */
	bool unclaimed; /* unjudged: some of it has become dirty since the RECLAIM that is on its way, or was answered
			   last */
	struct kr_uncovered_line
		uncovered_line; /* linked: the directory is to say that the dirty bytes are uncovered, or will be */
	int unjudged_err;       /* why, as the log has it; 0: it has nothing */
	uint64_t said_ns; /* the log says that it has been unflushed since then (dirty_since_ns); 0: it does not */
	uint64_t vouched; /* recovered after a loss of power: until the first RECLAIM, the one instance of the server
			   * that knows which of the dirty bytes it has */

	/* Guarded by file->lock. */
	bool noticed; /* the flusher knows that the file is dirty */
	bool backlog_noticed;
	bool backlog_held; /* there is one, but in a burst */
	uint64_t burst_ns; /* the last kr_flush_burst; 0: none so far */
	bool notice_posted;
	uint64_t dirty_since_ns;
	uint64_t clean_seq; /* when the file became dirty all writes up to here had been applied */
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
/* There is what the server's present boot does not have, or a failed sync has lost, and has not been applied again.
 * Loop thread. */
bool kr_flush_is_unapplied(struct kr_file *file);
/* Gives up all unflushed and unstable bytes of the file, by explicit command or because the file was removed and
 * closed. */
void kr_flush_discard(struct kr_file *file);

/* --- the session's recovery (FILE's hooks call these) ----------------------------------------- */
/* The session is new: flushes and streams in flight belong to the past. Before RECLAIMs are collected. */
void kr_flusher_session_lost(struct kr_flusher *flusher);
bool kr_flush_has_replays(struct kr_file *file, const uint8_t boot_id[16]);
/* Whether some bytes must be at the server before a lease of the file is given back, and are on their way or will be at
 * once: replays, and bytes refused before that are tried again.  Or the directory has to say first that they were
 * refused (uncovered.h). */
bool kr_flush_bound(struct kr_file *file);
/* A lease of FILE is about to be given back: what is dirty, because it was refused, has to be judged before it is sent
 * again. */
void kr_flush_uncovered(struct kr_file *file);
/* What is dirty, and what is to be replayed. */
void kr_flush_claims(struct kr_file *file, const uint8_t boot_id[16], struct kr_claims *ret_claims);
/* They are made for a new session: what is applied now was so before it, and others' changes are those after SINCE. */
void kr_flush_claimed(struct kr_file *file, struct kr_time since);
/* RECLAIM of the file was answered (ERR -ESTALE: it is gone). */
void kr_flush_reclaimed(struct kr_file *file, int err, const struct kr_reclaim_reply *reply);
/* Sends the replays of all files and then calls kr_session_replayed; at once when there are none. */
void kr_flusher_replay(struct kr_flusher *flusher);
/* The session goes on. */
void kr_flusher_resumed(struct kr_flusher *flusher);

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
};
void kr_flusher_left(struct kr_flusher *flusher, struct kr_flusher_left *ret_left);
/* {"files": [{"path", "fid", "dirty", "unstable", "state", "error"}...], "damage": [...], "journal": {...}}; owned
 * by the caller. */
json_t *kr_flusher_status(struct kr_flusher *flusher);
/* The administrator has seen what the recovery found damaged: no longer shown, its segments may go. */
void kr_flusher_discard_damage(struct kr_flusher *flusher);
/* A busy file whose hint is PATH or whose fid (hex) it is; NULL. Borrowed. */
struct kr_file *kr_flusher_find(struct kr_flusher *flusher, const char *path);

#endif
