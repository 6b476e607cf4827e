/* A mount of a node without a disk (local=@NODE): the kernel's side is here, and a daemon at the lender answers
 * (fuse/lend/lender.h).
 */
#ifndef KR_FUSE_SERVE_BORROWED_H
#define KR_FUSE_SERVE_BORROWED_H

#include <stdbool.h>

#include "fuse/base/options.h"

/* As kr_serve; -ENOTCONN: the lender's daemon has ended, or the connection was cut for too long, so that the kernel has
 * to answer programs with ENOTCONN. */
int kr_serve_borrowed(const struct kr_mount_options *options, bool (*ready)(void *context), void *context);

#endif
