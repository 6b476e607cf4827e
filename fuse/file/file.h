/* One file that this node reads or writes: its lease, its unflushed bytes, and its attributes under the lease.
 *
 * A kr_file exists from the first open until it has no opens, no unflushed or unstable bytes and no lease.  Idle files
 * keep READ (for the stage and the kernel's pages) in an LRU of KR_FILE_IDLE_MAX, and give WRITE back.  A kr_file needs
 * no descriptor.
 *
 * Threads: libfuse's workers take the lock for fast paths and never wait in them; the loop does everything else.  Lock
 * order: inodes, file->lock, journal; the table's lock, the loop's.  Fields say what guards them:
 * [lock], or [loop] = loop thread only.
 *
 * Waiting: a request that waits for a change of the file is on `waiters`.  A step wakes all waiters, and each looks
 * again at what it needs: so no wake-up is lost.
 */
#ifndef KR_FUSE_FILE_H
#define KR_FUSE_FILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/extent_map.h"
#include "common/base/list.h"
#include "common/rpc/msg.h"
#include "common/base/table.h"
#include "fuse/file/lease_state.h"
#include "fuse/base/loop.h"
#include "fuse/base/waiter.h"

struct kr_mount;
struct kr_flush;
struct kr_flush_hooks;
struct kr_flush_reply;
struct kr_journal_file;
struct kr_stage;
struct kr_files;
struct kr_file;
struct kr_file_drop;
struct kr_file_locks;

enum { KR_FILE_IDLE_MAX = 4096, KR_FILE_THROUGH_MS = 2, KR_FILE_LINGER_MS = 2 };

/* Something that waits for a change of the file; zeroed but for waiter.wake. */
struct kr_file_waiter {
	struct kr_waiter waiter;
	bool asked;           /* file_attr.c's: a flush has been asked for it... */
	uint32_t error_count; /* ... when so many had failed */
	uint64_t seq;         /* ... and it is to cover this write */
};

/* How a file is found and kept: file.c. */
struct kr_file_life {
	struct kr_table_link by_fid; /* the files table's */
	struct kr_link idle;         /* [loop] in the LRU */
	uint32_t references;         /* guarded by the table's lock */
	atomic_bool stepping;        /* a step is posted */
	struct kr_task step_task, free_task;
	bool running;  /* [loop] inside a step */
	bool resident; /* [loop] the table keeps a reference, because there is a reason to keep the file */
};

/* A write past the kernel's pages.  The kernel drops the pages of RANGE before the write is answered.  A page that the
 * kernel writes back before that has older bytes in RANGE, or what a program stored at the same time. */
struct kr_passed_write {
	struct kr_link link; /* kr_file_pages.passed */
	struct kr_range range;
};

/* What the kernel has of the file in its page cache: recall.c, and the readers and writers. */
struct kr_file_pages {
	uint32_t mappable;         /* [lock] handles through which programs may have mapped it for storing */
	uint64_t given_ns;         /* [lock] when a page that programs may store into was last given to the kernel */
	uint64_t known_size;       /* [lock] the kernel has believed in this size since its pages were last dropped */
	bool written;              /* [lock] pages of mappings have been written since they were last dropped... */
	bool fruitless;            /* [lock] ... and that time they had not */
	struct kr_list passed;     /* [lock] struct kr_passed_write */
	struct kr_list parked;     /* [loop] struct kr_parked_io */
	struct kr_file_drop *drop; /* [loop] the invalidation under way */
	struct kr_link lingering;  /* [loop] kr_files.lingering */
};

/* All [loop]. */
struct kr_file_opens {
	uint32_t count;      /* that the server counts: successful OPEN and CREATE minus CLOSE */
	uint32_t closing;    /* of the CLOSE on its way */
	uint32_t opening;    /* OPENs on their way */
	uint32_t handles;    /* open here */
	bool may_keep;       /* the last one may be kept: the server of this session counts it */
	bool nameless;       /* the server has told that the file's last name is gone */
	struct kr_list list; /* struct kr_handle */
};

/* What passes between the lease state, the server and the waiting operations: lease.c.  All [loop]. */
struct kr_file_lease {
	uint8_t needs;           /* lease kinds that the waiters need */
	int error;               /* of the LEASE that the waiters waited for; only while they are woken */
	struct kr_list recalls;  /* RECALLs to be answered */
	uint8_t reclaiming;      /* kinds that a RECLAIM asks for */
	bool gone;               /* the server does not know the file any more */
	bool could_flush;        /* kr_file_may_flush, when last looked at */
	bool unconfirmed_logged; /* the log says: a flush was not taken for want of a lease */
	bool refreshing;         /* GETATTR on its way, because of `stale` */
	uint64_t flush_target;   /* what the flush of a recall has to reach */
	uint32_t flush_errors;   /* refusals that the lease state knows of */
	uint64_t refused_seq;    /* the server has refused the dirty bytes up to here, and not taken them since */
	uint64_t asked_changes, refresh_changes; /* `changes` when LEASE and GETATTR were sent */
	uint64_t asked_generation;               /* kr_files_generation when LEASE was sent */
};

struct kr_file {
	struct kr_mount *mount;
	struct kr_fid fid;
	struct kr_file_life life;

	pthread_mutex_t lock;
	struct kr_lease_state holder; /* [lock] */
	struct kr_attr base;        /* [lock] the server's attributes under the lease; exact under READ unless stale */
	bool stale;                 /* [lock] base must be asked again before anything relies on it */
	uint64_t changes;           /* [lock] counts what makes attributes asked earlier outdated... */
	uint64_t changed_ns;        /* [lock] ... and when that was last; 0: never */
	struct kr_extent_map dirty; /* [lock] unflushed bytes: journal position and sequence number */
	struct kr_time mtime;       /* [lock] of the last write among the dirty ones, by the server's clock */
	uint64_t written_seq;       /* [lock] sequence number of the last write */
	bool clear_suid;            /* [lock] a dirty write is by a caller that may not keep set-id bits */
	uint32_t error_count;       /* [lock] failed flushes so far */
	int error;                  /* [lock] the last one's errno, negative */
	struct kr_journal_file *journal_file; /* [lock] the journal's; NULL before the first write */

	struct kr_file_pages pages;
	struct kr_file_opens open;
	struct kr_file_lease lease;
	struct kr_list waiters;      /* [loop] struct kr_file_waiter */
	struct kr_stage *stage;      /* set once, by the loop under lock; lives as long as the file */
	struct kr_flush *flush;      /* the flusher's (fuse/writeback/flush.h); set once */
	uint64_t flushed_seq;        /* [loop] all writes up to here are applied; the flusher sets it */
	atomic_bool locked;          /* `locks` is there: set before a program knows of its lock */
	struct kr_file_locks *locks; /* [loop] of locks.c; NULL: no program here has a lock or asks for one */
};

/* --- the table; one per mount (mount->files) -------------------------------------------------- */

int kr_files_new(struct kr_mount *mount, const struct kr_flush_hooks *flush, struct kr_files **ret_files);
/* Loop thread, before the rpc stops: registers RECALL and QUERY, starts timers. */
int kr_files_start(struct kr_files *files);
/* Loop thread: gives up timers; run the loop before kr_files_free. */
void kr_files_stop(struct kr_files *files);
/* The journal keeps unflushed bytes.  The loop does not run any more, or not yet. */
void kr_files_free(struct kr_files *files);
/* Visits every file, which is referenced meanwhile; the visitor may make and drop others. Loop thread. */
void kr_files_for_each(struct kr_files *files, void (*visit)(struct kr_file *file, void *context), void *context);
/* The journal has space again (kr_journal_options.on_space). Any thread. */
void kr_files_space(struct kr_files *files);
/* Loop thread: WAITER waits for space in the journal; it is also woken now and then. */
void kr_files_wait_space(struct kr_files *files, struct kr_waiter *waiter);
/* Loop thread: counts the times that the session went on after a break (kr_files_resumed); grants that cross one are
 * not to be trusted. */
uint64_t kr_files_generation(const struct kr_files *files);
/* The session goes on: every file is stepped.  Loop thread. */
void kr_files_resumed(struct kr_files *files);
/* Files known, and how many of them open here, for status. Loop thread. */
void kr_files_count(struct kr_files *files, uint64_t *ret_files, uint64_t *ret_open);

/* --- one file --------------------------------------------------------------------------------- */

/* The file, made if there is none, with a reference for the caller. Any thread. */
struct kr_file *kr_file_get_or_new(struct kr_mount *mount, const struct kr_fid *fid);
/* The file if there is one, with a reference; else NULL. Any thread. */
struct kr_file *kr_file_find(struct kr_mount *mount, const struct kr_fid *fid);
struct kr_file *kr_file_get(struct kr_file *file);
/* Any thread, without the lock held. NULL is fine. */
void kr_file_put(struct kr_file *file);

/* The file has changed: its lease goes on and its waiters look again.  Any thread, also under file->lock. */
void kr_file_step(struct kr_file *file);
/* Loop thread: the same at once (from inside a step: later). */
void kr_file_run(struct kr_file *file);
/* Loop thread. The waiter must be off (kr_file_unwait) before its memory goes. */
void kr_file_wait(struct kr_file *file, struct kr_file_waiter *waiter);
void kr_file_unwait(struct kr_file_waiter *waiter);
/* Loop thread: a waiter of the file cannot go on without these lease kinds. */
void kr_file_need(struct kr_file *file, uint8_t kinds);
/* The errno with which a woken waiter must fail, because LEASE failed; 0: none.  Loop thread. */
int kr_file_lease_error(const struct kr_file *file);
/* Loop thread: the file's attributes must be asked again (`stale`); a step follows. */
void kr_file_refresh(struct kr_file *file);
/* Loop thread: the stage, made if there is none, live and at the known version.  The caller has entered under READ. */
struct kr_stage *kr_file_stage(struct kr_file *file);

/* Keeps attributes that the server gave at some moment, if they are newer than the known ones.  [lock] held. */
void kr_file_learn(struct kr_file *file, const struct kr_attr *attr);
/* The end of the file as seen from here. [lock] held. */
static inline uint64_t kr_file_end(const struct kr_file *file)
{
	return KR_MAX(file->base.size, kr_extent_map_end(&file->dirty));
}
struct kr_file_label {
	char text[256];
};
/* The file's name for messages: its path as the journal knows it, else its inode number.  Borrows RET.  Loop thread. */
const char *kr_file_label(const struct kr_file *file, struct kr_file_label *ret);
/* The server's clock now, from the offset that HELLO and PING gave. Any thread. */
struct kr_time kr_file_now(struct kr_mount *mount);
/* The time of a write that a program makes now.  kr_file_now lags by up to the time of a slow reply, but a write is not
 * older than the file's ctime that the node knows.  Else the server takes what set that ctime for a change by others
 * after the write (server/recovery/late.h).  A ctime far ahead is of a clock that was set back.  [lock] held. */
struct kr_time kr_file_write_time(const struct kr_file *file);

/* --- for the flusher -------------------------------------------------------------------------- */

/* Whether bytes may go to the server now (WRITE is held, or READ is being recalled, or the node is OWING bytes to the
 * server; not fenced). If not, the lease is asked for, and the flusher's `step` called when it is there. Loop thread.
 */
bool kr_file_may_flush(struct kr_file *file, bool owing);
/* A flush of everything up to SEQ was applied, SENT are its extents: they leave `dirty`. Loop thread, lock not held. */
void kr_file_flushed(
	struct kr_file *file, uint64_t seq, const struct kr_flush_reply *reply, const struct kr_extent_map *sent);
/* The server answered a flush with EAGAIN: it may not count our WRITE, whatever we believe.  Then it is asked for
 * again. Loop thread, lock not held. */
void kr_file_flush_untaken(struct kr_file *file);
/* A flush failed for good with ERR (the server's errno); the bytes stay dirty. Loop thread. */
void kr_file_flush_failed(struct kr_file *file, int err);
/* `dirty` (changed under the lock by the caller) was filled other than by a write here, or emptied without a flush:
 * rebuilt from the journal at mount, sent again, durable already, discarded. ERR: the errno to report to fsync and
 * close, 0: none. Any thread, lock not held. */
void kr_file_redirtied(struct kr_file *file, int err);

/* The session is lost, and with it all leases; its RECALLs will not be answered.  Returns the lease kinds that RECLAIM
 * is to ask for.  Loop thread. */
uint8_t kr_file_session_lost(struct kr_file *file);
/* RECLAIM of the file was answered with ERR and REPLY.  Loop thread. */
void kr_file_reclaimed(struct kr_file *file, int err, const struct kr_reclaim_reply *reply);

/* --- for attributes and for operations that change the file at the server (file_attr.c) ------- */

/* Attributes that the server gave, as seen from here (own unflushed size and mtime).  STAMP: when they were asked
 * (kr_clock_ns), 0 if that is not known.  False: own bytes went to the server since, ask again (never
 * said when LAST).  FILE may be NULL.  Any thread. */
bool kr_file_overlay_attr(struct kr_file *file, uint64_t stamp, bool last, struct kr_attr *attr);

/* Own bytes are flushed before SETATTR of size or times, FALLOCATE, COPY.  Loop thread, each time the op looks:
 * 0 = go on, and call kr_file_after_change exactly once; -EAGAIN = the waiter has been queued, come again when woken;
 * other = the flush failed with this. SIZE: of a truncation, else UINT64_MAX. */
int kr_file_before_change(struct kr_file *file, struct kr_file_waiter *waiter, uint64_t size);
/* Where the answer is heard. ERR: how it ended; ATTR: the reply's, NULL when there is none. SIZE as before. */
void kr_file_after_change(struct kr_file *file, int err, uint64_t size, const struct kr_attr *attr);

#endif
