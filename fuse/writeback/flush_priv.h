/* The flusher's inside, shared by flush*.c and recovery.c only.  Loop thread. */
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
	uv_timer_t tick;
	struct kr_task space_task;
	struct kr_list damage; /* struct kr_journal_damage: what the recovery set aside, for status */
	uint32_t damages;
	uint64_t burst_max;      /* unflushed bytes of a file above which a burst is no reason to wait */
	json_t *conflicts;       /* for status: the conflict files of this mount, the latest KR_LATE_SHOWN */
	uint64_t conflict_files; /* all of them */
	uint64_t stuck_said_ns;  /* when the log last said that what was refused fills the journal; 0: never */
	bool recovering;         /* between the loss of a session and the next one going on */
	bool lost;               /* ... and it was a new one: the server may have forgotten what it owes us */
	bool stopped;
};

enum {
	KR_FLUSH_TICK_MS = 200,
	KR_FLUSH_RANGES_MAX = 8192,
	KR_FLUSH_REPLAY_INLINE = 64 * 1024,
	KR_FLUSH_CONFIRM_MS = 10000,
	KR_FLUSH_BURST_MS = 1000,
	KR_FLUSH_STUCK_S = 60,
	KR_FLUSH_REPLAYS_MAX = 1000 /* of one file in a session: the server takes 1024 */
};

/* One FLUSH in flight. */
struct kr_flush_send {
	struct kr_link link;       /* in flush.sends */
	struct kr_file *file;      /* a reference */
	struct kr_applied *replay; /* what it replays, in flush.applied; NULL: dirty bytes */
	bool restores;             /* ... which a failed sync had lost when it was sent */
	bool inlined;
	uint64_t number;        /* of dirty bytes: how many have been begun of the file */
	uint64_t call;          /* 0: not submitted yet */
	uint64_t round;         /* of a chained one's snapshot; 0: none yet, or aborted */
	struct kr_chain *chain; /* its stream, while it runs */
	bool damaged;           /* our own bytes could not be read for the last round */
	/* The snapshot of dirty bytes: holds them in the journal. */
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
/* A new entry of flush.applied: EXTENTS (moved) up to SEQ are applied in ROUND. */
struct kr_applied *kr_flush_add_applied(
	struct kr_file *file, struct kr_extent_map *extents, uint64_t seq, uint64_t round);
/* Releases the journal's bytes of an entry, removes and frees it. */
void kr_flush_release_map(struct kr_file *file, struct kr_extent_map *map);
/* The file's bytes can go nowhere: ERR is told, they stay in the journal. */
void kr_flush_orphan(struct kr_file *file, int err);
/* Entries of rounds up to ROUND of the present boot are stable. */
void kr_flush_stable(struct kr_file *file, uint64_t round);
/* Calls DO_FILE for each busy file, which may leave the list meanwhile. */
void kr_flush_for_each(struct kr_flusher *flusher, void (*do_file)(struct kr_file *file, enum kr_flush_reason reason),
	enum kr_flush_reason reason);

/* --- flush_unstable.c --- */
/* UNSTABLE: what it names is on its way again, or will be; programs are told. True: all of it has been sent now. */
bool kr_flush_unstable(struct kr_file *file, const struct kr_unstable_request *request);
/* These cannot go before what comes after them any more: they will be dirty. */
void kr_flush_forgo_order(struct kr_file *file);
/* ERR will make bytes dirty again.  Those from before this late node was away go in only when the server has judged
 * them. */
void kr_flush_hold_unclaimed(struct kr_file *file, int err);
/* There is what a failed sync of the server has lost, and has not been applied again. */
bool kr_flush_has_lost(const struct kr_file *file);
/* What will be dirty is, if it can be now. */
void kr_flush_settle_unstable(struct kr_file *file);

/* --- flush_status.c --- */
/* Now and then, of each busy file, and of one that is not busy any more. */
void kr_flush_watch(struct kr_file *file, uint64_t now_ns);
/* The session goes on: from now on unanswered requests are named. */
void kr_flush_watch_calls(struct kr_flusher *flusher);

/* --- flush_send.c --- */
/* Takes a snapshot and sends it. 0, or -errno when it could not begin. */
int kr_flush_send_dirty(struct kr_file *file);
/* Sends one applied entry again, of a former boot or lost; FLAGS for the rpc. */
int kr_flush_send_replay(struct kr_file *file, struct kr_applied *applied, unsigned flags);
/* Gives the send up: its answer, if one comes, is dropped. */
void kr_flush_send_abandon(struct kr_flush_send *send);
/* The snapshot of the dirty bytes for SEND, now. 0 or -ENOMEM; nothing dirty: an empty one. */
int kr_flush_snapshot(struct kr_flush_send *send);

/* --- flush_session.c --- */
/* As kr_flush_is_unapplied, but for what will be dirty again. */
bool kr_flush_awaits_replays(struct kr_file *file);
/* Whether the server's present boot has it, as far as is known. */
bool kr_flush_is_current_boot(const struct kr_file *file, const struct kr_applied *applied);
/* Sends what must be replayed and is not on its way. */
void kr_flush_replay_file(struct kr_file *file, unsigned flags);
/* Asks by FSYNC whether the applied bytes are stable, when the server may have forgotten to say so. */
void kr_flush_confirm(struct kr_file *file);

/* --- unjudged.c --- */
/* A change of the file later than this was made when we had no good lease any more.  [lock] held. */
struct kr_time kr_file_since(const struct kr_file *file);
/* Whether FILE has bytes that were refused, and may be taken later. */
bool kr_unjudged_refused(struct kr_file *file);
/* Whether a lease that is about to be given back has to wait, see uncovered.h. */
bool kr_unjudged_awaited(struct kr_file *file);
/* A start has found FILE's dirty bytes, and that they are uncovered. */
void kr_unjudged_recovered(struct kr_file *file, const struct kr_uncovered *uncovered);
/* The server could not take, or judge, what FILE has, and says ERR; nothing is in flight. */
void kr_unjudged_begin(struct kr_file *file, int err);
/* The server wants to be asked for FILE's replays before it takes them: programs hear of nothing as long as the server
 * says nothing else.  Nothing is in flight. */
void kr_unjudged_ask(struct kr_file *file);
/* Whether FILE is unjudged, and no program has heard of it. */
bool kr_unjudged_in_silence(const struct kr_file *file);
/* A replay of FILE has gone in. */
void kr_unjudged_gone_in(struct kr_file *file);
/* Bytes of FILE that will be dirty again because of ERR were in no RECLAIM of this late node, and are from before it
 * was away.  ERR 0: bytes that will be replayed. */
void kr_unjudged_unclaimed(struct kr_file *file, int err);
/* The server has said what may go in. */
void kr_unjudged_end(struct kr_file *file);
/* Asks again if it is time; often. */
void kr_unjudged_step(struct kr_file *file);

/* --- flush_round.c --- */
/* The send's round came to nothing: its stream and its snapshot go, it stays asked. */
void kr_flush_forget_round(struct kr_flush_send *send);
void kr_flush_rounds_init(struct kr_mount *mount);

#endif
