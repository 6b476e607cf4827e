/* The control socket of a mount without a local directory.  The lender's daemon answers, through the lender. */
#ifndef KR_FUSE_BORROWED_CONTROL_H
#define KR_FUSE_BORROWED_CONTROL_H

#include "common/rpc/conn.h"

struct kr_borrowed_control;

/* Loop thread.  TO_LENDER returns the connection to the lender, or NULL while there is none.  NULL, after a warning:
 * the kairan command will not find the mount. */
struct kr_borrowed_control *kr_borrowed_control_new(uv_loop_t *loop, unsigned dev_major, unsigned dev_minor,
	struct kr_conn *(*to_lender)(void *context), void *context);
void kr_borrowed_control_free(struct kr_borrowed_control *control);

#endif
