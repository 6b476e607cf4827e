/* The flusher's inside, shared by flush*.c, late.c, unjudged.c and recovery.c only.  Loop thread. */
#ifndef KR_FUSE_FLUSH_PRIV_H
#define KR_FUSE_FLUSH_PRIV_H

#include "common/base/buf.h"
#include "fuse/writeback/chain.h"
#include "fuse/file/file.h"
#include "fuse/writeback/flush.h"
#include "fuse/writeback/late.h"
#include "fuse/session/rpc.h"
#include "fuse/session/session.h"

struct kr_flusher {
	struct kr_mount *mount;
	struct kr_uncovered_log *uncovered;
	struct kr_list busy; /* kr_flush.busy */
	uint32_t busy_files; /* in it */
	uv_timer_t tick;
	struct kr_task space_task;
	struct kr_list damage; /* struct kr_journal_damage: what the recovery set aside, for status */
	uint32_t damages;
	uint64_t burst_max;       /* unflushed bytes of a file above which a burst is no reason to wait */
	json_t *conflicts;        /* for status: the conflict files of this mount, the latest KR_LATE_SHOWN */
	uint64_t conflict_files;  /* all of them */
	uint64_t stuck_said_ns;   /* when the log last said that what was refused fills the journal; 0: never */
	uint64_t refused_said_ns; /* when the log began to count the lines of files that the server refuses... */
	uint32_t refused_said;    /* ... of which there were so many in this minute */
	bool recovering;          /* between the loss of a session and the next one going on */
	bool lost;                /* ... and it was a new one: the server may have forgotten what it owes us */
	bool stopped;
};

enum {
	KR_FLUSH_TICK_MS = 200,
	KR_FLUSH_FILES_MAX = 2048,    /* with more files busy than this all are flushed */
	KR_FLUSH_EXTENTS_MAX = 16384, /* with so many dirty pieces a file is flushed */
	KR_FLUSH_RANGES_MAX = 8192,
	KR_FLUSH_BURST_MS = 1000,
	KR_FLUSH_STUCK_S = 60,
	KR_FLUSH_REFUSED_LINES = 20, /* of the log, in a minute */
};

/* One FLUSH in flight. */
struct kr_flush_send {
	struct kr_file *file; /* a reference */
	bool inlined, resends;
	uint64_t number;        /* how many have been begun of the file */
	uint64_t call;          /* 0: not submitted yet */
	uint64_t round;         /* of a chained one's snapshot; 0: none yet, or aborted */
	uint64_t stable;        /* rounds up to here are durable: STABLE has overtaken the answer; 0: none */
	struct kr_chain *chain; /* its stream, while it runs */
	bool damaged;           /* our own bytes could not be read for the last round */
	/* The snapshot: holds its bytes in the journal. */
	struct kr_extent_map extents;
	uint64_t seq;
	struct kr_time mtime;
	bool clear_suid;
	/* Inline: the bytes, read in the pool when there are many. */
	uv_work_t work;
	struct kr_buf *buf;
	struct kr_range *ranges;
	uint32_t range_count;
	int read_err;
	bool reading, abandoned;
};

static inline struct kr_flusher *kr_flusher_of(const struct kr_file *file)
{
	return file->mount->flusher;
}

/* --- flush.c --- */
/* The file has bytes to look after, or no longer: keeps the list of busy files right. */
void kr_flush_settle(struct kr_file *file);
/* The file's bytes can go nowhere: ERR is told, they stay in the journal. */
void kr_flush_orphan(struct kr_file *file, int err);
/* Calls DO_FILE for each busy file, which may leave the list meanwhile. */
void kr_flush_for_each(struct kr_flusher *flusher, void (*do_file)(struct kr_file *file, enum kr_flush_reason reason),
	enum kr_flush_reason reason);

/* --- flush_redirty.c --- */
/* The send's snapshot (moved) is applied in ROUND. */
void kr_flush_add_applied(struct kr_flush_send *send, uint64_t round);
/* All rounds up to ROUND are durable, but for those that an unanswered UNSTABLE names. */
void kr_flush_stable(struct kr_file *file, uint64_t round);
/* Gives the journal's bytes of these rounds up. */
void kr_flush_release_applied(struct kr_file *file, uint64_t up_to_round);
/* The lowest seq of what the file has dirty or applied; UINT64_MAX: there is none. */
uint64_t kr_flush_oldest(struct kr_file *file);
/* Makes the bytes of all rounds after AFTER_ROUND dirty again.  No FLUSH is in flight.  Programs get ERR; 0: none. */
void kr_flush_redirty(struct kr_file *file, uint64_t after_round, int err);
/* The server has sent UNSTABLE.  The node answers it when the bytes of the rounds that it names are dirty again. */
void kr_flush_unstable(struct kr_file *file, const struct kr_down *down, const struct kr_unstable_request *request);
/* Does that now, if no FLUSH is in flight. */
void kr_flush_settle_unstable(struct kr_file *file);
/* Memory only: the journal keeps the bytes; no UNSTABLE is answered. */
void kr_flush_forget_applied(struct kr_flush *flush);
void kr_flush_forget_unstable(struct kr_flush *flush);

/* --- flush_status.c --- */
/* Now and then, of each busy file, and of one that is not busy any more. */
void kr_flush_watch(struct kr_file *file, uint64_t now_ns);
/* The session goes on: from now on unanswered requests are named. */
void kr_flush_watch_calls(struct kr_flusher *flusher);

/* --- flush_send.c --- */
/* Takes a snapshot and sends it. 0, or -errno when it could not begin. */
int kr_flush_send_dirty(struct kr_file *file);
/* Gives the FLUSH in flight up, if there is one: its answer, if one comes, is dropped. */
void kr_flush_send_abandon(struct kr_file *file);
/* The snapshot of the dirty bytes for SEND, now. 0 or -ENOMEM; nothing dirty: an empty one. */
int kr_flush_snapshot(struct kr_flush_send *send);
/* Tells the server that no bytes come (any more) which it may wait for, if that is so. */
void kr_flush_waive(struct kr_file *file);

/* --- recovery.c --- */
/* Which dirty bytes RECLAIM asks for. */
struct kr_claims kr_flush_claims(struct kr_file *file);
/* RECLAIM of the file was answered (ERR -ESTALE: it is gone). */
void kr_flush_reclaimed(struct kr_file *file, int err, const struct kr_reclaim_reply *reply);
/* After a loss of this machine's power: whether the server has judged all that the journal held. */
void kr_recovery_settle_power(struct kr_flusher *flusher);

/* --- unjudged.c --- */
/* A change of the file later than this was made when we had no good lease any more.  [lock] held. */
struct kr_time kr_file_since(const struct kr_file *file);
/* Hooks of the file room (flush_hooks.h): keeps_leases and uncovered. */
bool kr_unjudged_keeps_leases(struct kr_file *file);
void kr_unjudged_uncovered(struct kr_file *file);
/* A start has found FILE's dirty bytes, and that they are uncovered. */
void kr_unjudged_recovered(struct kr_file *file, const struct kr_uncovered *uncovered);
/* The server could not take, or judge, what FILE has, and says ERR; nothing is in flight. */
void kr_unjudged_begin(struct kr_file *file, int err);
/* RECLAIM of FILE was answered: whether its bytes may go in, if that is what was unknown. */
void kr_unjudged_heard(struct kr_file *file, int err, const struct kr_reclaim_reply *reply);
/* Asks again if it is time; often. */
void kr_unjudged_step(struct kr_file *file);

/* --- flush_round.c --- */
void kr_flush_rounds_init(struct kr_mount *mount);

#endif
