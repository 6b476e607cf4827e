/* Threads that invalidate pages of the kernel's cache (kr-notify).
 *
 * An invalidation may wait for a page lock, and the lock's holder for the daemon's answer.  So a thread that answers
 * requests must not send one, nor a thread that holds a lock.  Jobs lie inside their owners, so the queue needs no
 * memory and is bounded.  While threads are stuck, others are started, up to a bound.  Shrink notices
 * (fuse/file/shrink_notice.h) have a notifier of their own: their jobs may wait for page reads that wait for other
 * nodes, and must not take the threads from recalls.  So has the invalidation of attributes
 * (fuse/names/kernel_attrs.h): its jobs wait for no page, and other nodes' changes wait for them.
 */
#ifndef KR_FUSE_NOTIFY_H
#define KR_FUSE_NOTIFY_H

#include "common/base/list.h"
#include "common/base/types.h"

struct fuse_session;
struct kr_notifier;

enum { KR_NOTIFY_RANGES = 128 };

/* The range for no pages, but the attributes; each range is for these, too. */
#define KR_NOTIFY_ATTRIBUTES ((struct kr_range){.offset = UINT64_MAX})

/* The caller owns it, and leaves it alone until `done` has run. */
struct kr_notify_job {
	struct kr_link link;
	uint64_t nodeid; /* 0: there are no pages to drop */
	uint32_t count;  /* of ranges to be dropped; length 0: to the end of the file */
	struct kr_range ranges[KR_NOTIFY_RANGES];
	/* Runs in kr-notify.  It may lock and post, and wait for page locks, and for threads that wait for those; for
	 * nothing else.  ERR: 0 (also when the kernel does not know the inode any more) or -errno: the pages may still
	 * be there. */
	void (*done)(struct kr_notify_job *job, int err);
};

/* Borrows FUSE, which must outlive the notifier. -errno if no thread can be started. */
int kr_notifier_new(struct fuse_session *fuse, struct kr_notifier **ret_notifier);
/* Waits until all queued jobs have run.  Meanwhile workers must still serve the kernel, or the session be unmounted. */
void kr_notifier_free(struct kr_notifier *notifier);
/* Drops RANGE of the inode's pages: in kr-notify, for a `done`.  KR_NOTIFY_ATTRIBUTES waits for no page: any thread.
 * 0; -ENOENT: the kernel does not know the inode any more; other errors as for `done`. */
int kr_notify_drop(struct fuse_session *fuse, uint64_t nodeid, const struct kr_range *range);
/* How many invalidations the daemon has sent for the inode, or more: inodes share counts.  The kernel does not believe
 * the file's end in the answer to a read that it sent before an invalidation. */
uint32_t kr_notify_count(uint64_t nodeid);
/* Any thread; never blocks. */
void kr_notify(struct kr_notifier *notifier, struct kr_notify_job *job);

#endif
