/* One file that this node reads or writes: its lease, its unflushed bytes, what is known of it under the lease.
 *
 * A kr_file exists from the first open until it has no opens, no unflushed or unstable bytes and no lease; idle files keep
 * READ (for the stage and the kernel's pages) in an LRU of KR_FILE_IDLE_MAX.  Not per known inode, and no descriptor.
 *
 * Threads: libfuse's workers take the lock for fast paths and never wait in them; everything else is the loop's.  Lock
 * order: inodes, files table, file->lock, journal.  Fields say who guards them: [lock], or [loop] = loop thread only.
 *
 * Waiting: whoever waits for a change of the file (loop thread) puts a kr_file_waiter on it; kr_file_step wakes them all,
 * and each looks again at what it needs.  So no wake-up is lost, and nobody is woken with a promise.
 */
#ifndef KR_FUSE_FILE_H
#define KR_FUSE_FILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/extent_map.h"
#include "common/list.h"
#include "common/msg.h"
#include "common/table.h"
#include "fuse/flush.h"
#include "fuse/holder.h"
#include "fuse/notify.h"

struct kr_mount;
struct kr_stage;
struct kr_journal_file;
struct kr_files;
struct kr_file;

enum { KR_FILE_IDLE_MAX = 4096 };

struct kr_file_waiter {
	struct kr_link link;
	void (*wake)(struct kr_file_waiter *waiter); /* loop thread; taken off the list before; may wait again */
};

/* A flush that the server has applied and not yet called stable; its extents stay in the journal for a replay. */
struct kr_applied {
	struct kr_link link;
	uint64_t seq, round;
	uint8_t boot_id[16];
};

struct kr_file {
	struct kr_table_link by_fid; /* the files table's */
	struct kr_link idle;         /* in the LRU, or in the list of closing files */
	struct kr_mount *mount;
	_Atomic uint32_t references;
	atomic_bool stepping;        /* a step is posted */
	struct kr_fid fid;

	pthread_mutex_t lock;
	struct kr_holder holder;     /* [lock] */
	struct kr_attr base;         /* [lock] the server's attributes under the lease; exact under READ */
	bool stale;                  /* [lock] base must be asked again: everybody says this version is gone */
	bool clear_suid;             /* [lock] a write among the dirty ones by a caller who may not keep set-id bits */
	bool suid_checked;           /* [lock] base.mode is known to have no set-id bits */
	struct kr_extent_map dirty;  /* [lock] unflushed bytes: journal position and sequence number */
	struct kr_time mtime;        /* [lock] of the last write among the dirty ones, by the server's clock */
	uint64_t written_seq;        /* [lock] sequence number of the last write */
	uint64_t changes;            /* [lock] counts what makes attributes asked earlier outdated (kr_file_overlay_attr) */
	uint32_t changing;           /* [lock] operations that change the file at the server; no flush meanwhile */
	uint32_t error_count;        /* [lock] failed flushes so far */
	int error;                   /* [lock] the last one's errno, negative */
	uint64_t nodeid;             /* [lock] the kernel's name of it; 0: none */
	uint32_t cached_opens;       /* [lock] handles whose reads go through the kernel's pages */

	struct kr_journal_file *journal_file; /* [lock] JOURNAL's; NULL before the first write */
	struct kr_list applied;      /* [lock] struct kr_applied, rounds ascending */
	struct kr_flush flush;       /* [loop] JOURNAL's */
	struct kr_stage *stage;      /* [loop; the pointer is set once under lock and lives as long as the file] READ's */

	uint32_t opens;              /* [loop] that the server counts: successful OPEN and CREATE minus CLOSE */
	uint32_t handles;            /* [loop] open here */
	struct kr_list waiters;      /* [loop] */
	uint8_t needs;               /* [loop] lease kinds that the waiters need, gathered while they are woken */
	struct kr_list recalls;      /* [loop] RECALLs to be answered */
	struct kr_file_drop *drop;   /* [loop] the invalidation under way */
	struct kr_list held_reads;   /* [loop] reads parked at the gate while pages are dropped */
};

/* The table of files; one per mount (mount->files). */
int kr_files_new(struct kr_mount *mount, struct kr_files **ret_files);
/* After the rpc has stopped; what is unflushed stays in the journal. */
void kr_files_free(struct kr_files *files);
/* Visits every file (loop thread) with a reference held by the walk; the visitor may create and drop files. */
void kr_files_for_each(struct kr_files *files, void (*visit)(struct kr_file *file, void *context), void *context);
/* Steps every file that somebody waits for: the mount is no longer fenced, or the session is back. */
void kr_files_step_all(struct kr_files *files);

/* The file, made if there is none, with a reference for the caller. Any thread. */
struct kr_file *kr_file_get_or_new(struct kr_mount *mount, const struct kr_fid *fid);
/* The file if there is one, with a reference; else NULL. Any thread. */
struct kr_file *kr_file_find(struct kr_mount *mount, const struct kr_fid *fid);
struct kr_file *kr_file_get(struct kr_file *file);
/* Any thread, without the lock held. */
void kr_file_put(struct kr_file *file);

/* Something about this file changed: its lease goes on and its waiters look again. Any thread; coalesced; safe under
 * file->lock. */
void kr_file_step(struct kr_file *file);
/* Loop thread. The waiter must be removed (kr_file_unwait) before its memory goes. */
void kr_file_wait(struct kr_file *file, struct kr_file_waiter *waiter);
void kr_file_unwait(struct kr_file_waiter *waiter);
/* From a waiter's wake, or before kr_file_wait: it cannot go on without these lease kinds. Loop thread. */
void kr_file_need(struct kr_file *file, uint8_t kinds);

/* For JOURNAL's flush. Whether bytes may go to the server now (holder, no change in progress, not fenced). If not, the
 * lease is on its way, and the flusher is asked again (kr_flush_ask) when it is there. Loop thread. */
bool kr_file_may_flush(struct kr_file *file);
/* A flush of everything up to SEQ was applied. SENT: its extents. Loop thread, without the lock held. */
void kr_file_flushed(struct kr_file *file, uint64_t seq, const struct kr_flush_reply *reply,
	const struct kr_extent_map *sent);
/* A flush failed for good with ERR (the server's errno); the bytes stay dirty. Loop thread. */
void kr_file_flush_failed(struct kr_file *file, int err);
/* Bytes became dirty other than by a write here: rebuilt from the journal at mount, or after UNSTABLE (ERR: the errno to
 * report to fsync and close; 0: none). Loop thread; takes file->lock itself. */
void kr_file_redirtied(struct kr_file *file, struct kr_time mtime, int err);

/* For MOUNT's session: after a HELLO that was not resumed. The kinds to reclaim (0 and no opens: nothing to do). */
uint8_t kr_file_lost(struct kr_file *file);
void kr_file_reclaimed(struct kr_file *file, int err, const struct kr_reclaim_reply *reply);

/* For op_attr, lookup and readdirplus: attributes that the server gave, as seen from here (own unflushed size and mtime).
 * STAMP: kr_file_stamp before they were asked; 0 if there was no file. False: own bytes went to the server meanwhile, ask
 * again (never said when LAST). FILE may be NULL. Any thread. */
uint64_t kr_file_stamp(struct kr_file *file);
bool kr_file_overlay_attr(struct kr_file *file, uint64_t stamp, bool last, struct kr_attr *attr);

/* For operations that change the file at the server (SETATTR of size and times, FALLOCATE, COPY): own bytes are flushed
 * first, and no flush runs beside it. Loop thread, from a waiter's step:
 * 0 = go on, and call kr_file_after_change exactly once; -EAGAIN = the waiter has been queued, come again when woken; other
 * = the flush failed with this. SIZE: of a truncation, else UINT64_MAX. */
int kr_file_before_change(struct kr_file *file, struct kr_file_waiter *waiter, uint64_t size);
/* ERR: how it ended; ATTR: the reply's (NULL when it failed or has none: then they are asked again). SIZE as before. */
void kr_file_after_change(struct kr_file *file, int err, uint64_t size, const struct kr_attr *attr);

/* The server's clock now, from the offset that HELLO and PING gave. Any thread. */
struct kr_time kr_file_now(struct kr_mount *mount);

#endif
