/* The lender: kairanfs --lend DIR, which serves nodes without a disk.  For each mount of such a node (borrower) it runs
 * a child, an ordinary kairanfs with its local directory below DIR, and carries FUSE messages between them (LEND in
 * msgs.def).
 *
 * One thread, with an event loop.  A borrower names its node and its mount point, never a path here.
 */
#ifndef KR_FUSE_LENDER_H
#define KR_FUSE_LENDER_H

struct kr_mount_options;

enum { KR_LEND_VERSION = 1 };

/* Flags of LEND. */
enum kr_lend_flag {
	KR_LEND_RO = 1,
	KR_LEND_ALLOW_OTHER = 2,
	KR_LEND_NO_DEFAULT_PERMISSIONS = 4,
	KR_LEND_NOACL = 8,
	KR_LEND_SOFT = 16,
	KR_LEND_SHARED_MMAP = 32,
	KR_LEND_NOATIME = 64,
	KR_LEND_FLAGS = 127
};

/* Serves until SIGTERM or SIGINT, and then until all children have ended.  SIGHUP: reads the key again.  0 or -errno
 * with a reason. */
int kr_lender_run(const struct kr_mount_options *options);

#endif
