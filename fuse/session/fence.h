/* Self-fencing: when this node must stop serving from its caches, because the server may have given its leases away.
 *
 * The order of the two.  The server counts the lease time from when it READS a frame of ours; we count from when we
 * SENT the PING (HELLO, RECLAIM_DONE) whose answer proves that it was read, which was earlier; and our time is 3/4 of
 * its.  Both count CLOCK_BOOTTIME: no setting of clocks moves it, and it goes on while a machine sleeps.  So as long as
 * the clocks' rates differ by less than a quarter we are fenced before; and the server, when the time is over, first
 * takes our record out of its state directory, durably, then our leases.
 *
 * What a fenced node does.  No fast path serves or takes anything (kr_mount_fenced, asked under file->lock; a process
 * that was stopped is fenced when it goes on, before any timer of it has run); the kernel's pages of all files are
 * dropped as soon as the moment comes (kr_fence_start: a timer of the kernel's that counts while we sleep).
 *
 * Between the question and the use.  A write that was let through is in the journal only, and FLUSH is refused without
 * the lease.  The bytes of a read(2) that was let through are those of a moment after its call, whenever it returns;
 * but those that fill the kernel's pages could be found there later: a read that finds the session changed is served
 * anew, and pages filled in the very last moment are dropped again right after (op_read.c).  What is left: a program
 * may read out of the kernel's pages as long as the daemon, and not the program, is stopped, and for the instant that
 * dropping takes after the node wakes up.
 */
#ifndef KR_FUSE_FENCE_H
#define KR_FUSE_FENCE_H

#include "fuse/base/mount.h"

struct kr_fence;

/* When a node that sent at SENT_NS what the server has answered is fenced, if nothing else is answered. */
static inline uint64_t kr_fence_after(uint64_t sent_ns, uint32_t lease_ms)
{
	return sent_ns + (uint64_t)lease_ms * 3 / 4 * KR_NS_PER_MS;
}

/* ON_FENCED runs in the loop at the moment when the mount becomes fenced. 0 or -errno. Loop thread. */
int kr_fence_start(struct kr_mount *mount, void (*on_fenced)(struct kr_mount *mount), struct kr_fence **ret_fence);
/* NULL is fine. Its memory goes when the loop has run. */
void kr_fence_stop(struct kr_fence *fence);

#endif
