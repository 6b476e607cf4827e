/* A lent mount: this process serves the kernel of another node, which has no disk.  Instead of /dev/fuse it has a
 * socket to the lender that has started it (fuse/lend), with the frames of LEND_MESSAGE (msgs.def).  What a caller's
 * /proc would tell comes with the request.
 */
#ifndef KR_FUSE_LENT_H
#define KR_FUSE_LENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Where the lender says which descriptor the socket is. */
#define KR_LENT_ENVIRONMENT "KAIRAN_LENT_FD"

/* Kinds of LEND_MESSAGE. */
enum kr_lend_kind {
	KR_LEND_REQUEST = 1,
	KR_LEND_REPLY,
	KR_LEND_NOTIFY,
	KR_LEND_NOTIFIED,
	KR_LEND_TERM,
	KR_LEND_BYE,
	KR_LEND_ENDED,
};

/* First in main: takes the socket over if there is one.  -EBADF. */
int kr_lent_begin(void);
/* Any thread: whether this is a lent mount.  The other functions are for such a mount only. */
bool kr_lent(void);
/* The session's lease time, before kr_lent_ready, and when it has changed. */
void kr_lent_set_lease(uint32_t lease_ms);
/* Tells the borrower that the mount serves (ERR 0), or why it does not. */
void kr_lent_ready(int err, const char *reason);
/* The descriptor, as fuse_session_mount takes it. */
void kr_lent_mount_point(char *text, size_t size);
/* As read(2) and writev(2) on /dev/fuse.  A worker's request, and its caller's groups, are the latest that this thread
 * has read.  Writing a notification waits until the borrower's kernel has taken it. */
ssize_t kr_lent_read(void *buffer, size_t size);
ssize_t kr_lent_writev(const struct iovec *iov, int count);
/* The notifications of this thread, until ON is false again, cannot block, and their result does not matter.  So the
 * thread does not wait: the kernel has them before what the thread writes later. */
void kr_lent_in_order(bool on);
/* How many groups the caller of this thread's request has; at most MAX are filled in. */
uint32_t kr_lent_groups(uint32_t *groups, uint32_t max);
/* Any thread: ends the mount.  Reads fail with ENODEV, as after an unmount. */
void kr_lent_end(void);

#endif
