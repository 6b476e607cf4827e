/* The kernel's side of the mount: the FUSE session, the workers that take its requests, mounting and unmounting.  Main
 * thread, unless said otherwise.
 */
#ifndef KR_FUSE_KERNEL_H
#define KR_FUSE_KERNEL_H

#include <stdbool.h>

#include "fuse/base/mount.h"
#include "fuse/base/shim.h"

struct kr_kernel;

/* The major device number of a mount whose kernel is another node's; the minor number is the process's. */
enum { KR_KERNEL_LENT = 1 << 20 };

/* What answers the requests.  All get the mount; `arrived` and `served` run in the worker, before and after the
 * operation, and may be NULL, as may `replies`. */
struct kr_kernel_side {
	const struct fuse_lowlevel_ops *operations;
	void (*arrived)(struct kr_mount *mount, const void *message);
	void (*served)(struct kr_mount *mount);
	kr_shim_reply_fn replies;
};

/* Mounts: from now on the kernel queues requests, so kr_kernel_start has to follow. Reason in kr_fail_reason. */
int kr_kernel_new(struct kr_mount *mount, const struct kr_kernel_side *side, struct kr_kernel **ret_kernel);
struct fuse_session *kr_kernel_fuse(const struct kr_kernel *kernel);
/* Starts the workers. */
int kr_kernel_start(struct kr_kernel *kernel);
/* Returns when the kernel has ended the session (unmounted), or after kr_kernel_wake. */
void kr_kernel_wait(struct kr_kernel *kernel);
/* Any thread; NULL is fine. */
void kr_kernel_wake(struct kr_kernel *kernel);
/* Unmounts if still mounted (lazily, because programs may have files open), and ends the workers.  May be repeated;
 * NULL is fine. */
void kr_kernel_stop(struct kr_kernel *kernel);
/* Ends the kernel's side in spite of open files: programs get ENOTCONN. */
void kr_kernel_abort(const struct kr_kernel *kernel);
/* After kr_kernel_stop, when no thread replies any more. */
void kr_kernel_free(struct kr_kernel *kernel);
/* The mount's device number, as in mountinfo and st_dev. */
void kr_kernel_device(const struct kr_kernel *kernel, unsigned *ret_major, unsigned *ret_minor);

#endif
