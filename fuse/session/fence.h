/* Self-fencing: when this node must stop serving from its caches, because the server may have given its leases away.
 *
 * The order of the two.  The server counts the lease time from the moment when it reads a frame of the node.  The node
 * counts from the moment when it sent the PING (HELLO, RECLAIM_DONE) whose reply proves that read.  The node's moment
 * is earlier, and its time is 3/4 of the server's.  Both count CLOCK_BOOTTIME: setting a clock does not move it, and it
 * goes on while a machine sleeps.  So the node is fenced first, as long as the clocks' rates differ by less than a
 * quarter.  When the server's time is over, the server first removes the node's record from its state directory,
 * durably, and then the node's leases.
 *
 * What a fenced node does.  No fast path serves or accepts anything (kr_mount_fenced, asked under file->lock).  A
 * process that was stopped is fenced when it continues, before any of its timers has run.  The node drops the kernel's
 * pages of all files as soon as the moment comes (kr_fence_start: a kernel timer that counts while the machine sleeps).
 *
 * Between the check and the use.  The bytes of a write that passed the check are in the journal only, and the server
 * refuses FLUSH without the lease.  The bytes of a read(2) that passed are those of a moment after its call, whenever
 * it returns.  But bytes that fill the kernel's pages could be found there later.  So a read that finds the session
 * changed is served anew, and pages filled in the very last moment are dropped again right after (op_read.c).
 *
 * Two gaps are left.  A program may read out of the kernel's pages while the daemon is stopped and the program is not.
 * It may also do so after the node wakes up, for the instant that the dropping takes.
 */
#ifndef KR_FUSE_FENCE_H
#define KR_FUSE_FENCE_H

#include "fuse/base/mount.h"

struct kr_fence;

/* The fencing time of a node that gets no reply after the one to its message of SENT_NS. */
static inline uint64_t kr_fence_after(uint64_t sent_ns, uint32_t lease_ms)
{
	return sent_ns + (uint64_t)lease_ms * 3 / 4 * KR_NS_PER_MS;
}

/* ON_FENCED runs in the loop at the moment when the mount becomes fenced. 0 or -errno. Loop thread. */
int kr_fence_start(struct kr_mount *mount, void (*on_fenced)(struct kr_mount *mount), struct kr_fence **ret_fence);
/* NULL is fine.  The loop frees the memory in its next turn. */
void kr_fence_stop(struct kr_fence *fence);

#endif
