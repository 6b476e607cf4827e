/* Invalidations of the kernel's page cache, and what else may wait for its pages, by threads of their own (kr-notify).
 *
 * A notification may wait for a page lock whose holder waits for an answer of ours, so no thread that answers requests,
 * and nobody who holds a lock, may send one.  The queue holds jobs that lie inside their owners (at most one per file
 * and one per waiting write or read), so it is bounded by them and needs no memory.  While threads are stuck others are
 * started, up to a bound.  Cuts of files (shrink_notice.h) have a notifier of their own: their jobs may wait for page
 * reads that wait for other nodes, and must not take the threads from recalls.
 */
#ifndef KR_FUSE_NOTIFY_H
#define KR_FUSE_NOTIFY_H

#include "common/base/list.h"
#include "common/base/types.h"

struct fuse_session;
struct kr_notifier;

enum { KR_NOTIFY_RANGES = 128 };

/* Owned by the asker, untouched by it until `done` has run. */
struct kr_notify_job {
	struct kr_link link;
	uint64_t nodeid; /* 0: nothing is to be dropped */
	uint32_t count;  /* of ranges to be dropped; length 0: to the end of the file */
	struct kr_range ranges[KR_NOTIFY_RANGES];
	/* Runs in kr-notify: may lock and post, and may itself wait for page locks and for others who do; for nothing
	 * else. ERR: 0 (also when the kernel does not know the inode any more) or -errno: the pages may still be there.
	 */
	void (*done)(struct kr_notify_job *job, int err);
};

/* Borrows FUSE, which must outlive the notifier. -errno if no thread can be started. */
int kr_notifier_new(struct fuse_session *fuse, struct kr_notifier **ret_notifier);
/* Waits until what is queued has run (the kernel must still be served meanwhile, or the session be unmounted). */
void kr_notifier_free(struct kr_notifier *notifier);
/* In kr-notify, for a `done`: drops that much of the inode's pages. 0, -ENOENT: the kernel does not know it any more;
 * or as for `done`. */
int kr_notify_drop(struct fuse_session *fuse, uint64_t nodeid, const struct kr_range *range);
/* Any thread; never blocks. */
void kr_notify(struct kr_notifier *notifier, struct kr_notify_job *job);

#endif
