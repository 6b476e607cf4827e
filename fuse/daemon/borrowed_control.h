/* The control socket of a mount without a local directory.  The lender's daemon answers, through the lender.  Loop
 * thread.
 */
#ifndef KR_FUSE_BORROWED_CONTROL_H
#define KR_FUSE_BORROWED_CONTROL_H

#include "common/base/list.h"
#include "fuse/lend/borrower.h"

/* The caller's memory, until the loop has ended. */
struct kr_borrowed_control {
	struct kr_borrower *borrower;
	unsigned dev_major, dev_minor; /* of the mount */

	uv_pipe_t listener;
	char *path; /* of the socket; owned */
	struct kr_list clients;
	unsigned client_count;
};

/* The caller has set the borrower and the device.  A warning, if the kairan command will not find the mount. */
void kr_borrowed_control_start(struct kr_borrowed_control *control, uv_loop_t *loop);
/* All zero is fine. */
void kr_borrowed_control_stop(struct kr_borrowed_control *control);

#endif
