/* The kernel of a node without a disk.  Its requests go from /dev/fuse to the lender, and the lender's replies and
 * notifications to it.  Loop thread, except for free.
 */
#ifndef KR_FUSE_BORROWER_KERNEL_H
#define KR_FUSE_BORROWER_KERNEL_H

#include "fuse/lend/borrower.h"

/* Reads requests from FD (/dev/fuse) from now on.  Borrows BORROWER. */
struct kr_borrower_kernel *kr_borrower_kernel_new(uv_loop_t *loop, int fd, struct kr_borrower *borrower);
/* A message of the lender, whose daemon has a session with this lease time.  False: it is not for a kernel. */
bool kr_borrower_kernel_take(struct kr_borrower_kernel *kernel, const struct kr_lend_message_request *message,
	struct kr_buf *data, uint32_t lease_ms);
/* There is room for more (kr_borrower_send). */
void kr_borrower_kernel_go_on(struct kr_borrower_kernel *kernel);
/* Several times a second.  FENCED: the lender's daemon may have lost its session, so that other nodes may write. */
void kr_borrower_kernel_tick(struct kr_borrower_kernel *kernel, uint64_t now_ns, bool fenced);
void kr_borrower_kernel_stop(struct kr_borrower_kernel *kernel);
/* When the loop has ended; NULL is fine. */
void kr_borrower_kernel_free(struct kr_borrower_kernel *kernel);

#endif
