/* The kernel's passthrough (Linux 6.9 and later), which libfuse before 3.17 does not know: a file of a mount whose
 * reads, writes and mappings the kernel hands to a file of the disk.  These calls write the kernel's own structs, so
 * they are the same with each libfuse. */
#ifndef KR_FUSE_VIEW_PASSTHROUGH_H
#define KR_FUSE_VIEW_PASSTHROUGH_H

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>
#include <stdint.h>

/* Of an open reply; the kernel's FOPEN_ bits. */
enum {
	KR_OPEN_DIRECT = 1 << 0,
	KR_OPEN_KEEP_CACHE = 1 << 1,
	KR_OPEN_NO_FLUSH = 1 << 5,
	KR_OPEN_PARALLEL_WRITES = 1 << 6,
	KR_OPEN_PASSTHROUGH = 1 << 7,
};

/* Registers the regular file FD with the connection.  0; -errno: -EPERM, -EOPNOTSUPP, -ENOTTY: not for this daemon, not
 * by this kernel; -ELOOP: the disk's file system cannot be passed through to. */
int kr_passthrough_register(struct fuse_session *fuse, int fd, uint32_t *ret_backing);
void kr_passthrough_forget(struct fuse_session *fuse, uint32_t backing);

/* As fuse_reply_open and fuse_reply_create, with these flags, and BACKING, or 0. */
int kr_passthrough_reply_open(fuse_req_t req, uint64_t handle, uint32_t flags, uint32_t backing);
int kr_passthrough_reply_create(
	fuse_req_t req, const struct fuse_entry_param *entry, uint64_t handle, uint32_t flags, uint32_t backing);

#endif
