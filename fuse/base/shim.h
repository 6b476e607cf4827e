/* FUSE features that the kernel has and an old libfuse does not pass on.  They are mmap on direct_io handles, parallel
 * direct writes, parallel directory operations, and passthrough.  With a newer libfuse the shim is a thin wrapper.
 *
 * All of libfuse's replies pass through the shim, which shows them to a hook.
 */
#ifndef KR_FUSE_SHIM_H
#define KR_FUSE_SHIM_H

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Any thread: a reply (struct fuse_out_header, then its body) or notification is about to be written.  USERDATA: the
 * session's. */
typedef void (*kr_shim_reply_fn)(void *userdata, const struct iovec *iov, int count);
/* After fuse_session_mount, before the first request is read.  ON_REPLY may be NULL. */
int kr_shim_install(struct fuse_session *fuse, kr_shim_reply_fn on_reply);
/* In the INIT handler: asks for features, FUSE_CAP_..., of those that the kernel has, or not for them. */
void kr_shim_want(struct fuse_conn_info *conn, uint32_t features);
void kr_shim_want_not(struct fuse_conn_info *conn, uint32_t features);
/* In the INIT handler, after these. */
void kr_shim_init(struct fuse_conn_info *conn);
/* As fuse_reply_open and fuse_reply_create; writes of a direct_io handle may run at the same time.  -ENOENT: the
 * program was interrupted, so no RELEASE (and no INVALIDATE) will come.  The caller must undo the open. */
int kr_shim_reply_open(fuse_req_t req, struct fuse_file_info *fi);
int kr_shim_reply_create(fuse_req_t req, const struct fuse_entry_param *entry, struct fuse_file_info *fi);
/* Makes the kernel take SIZE (> 0) as the file's least size, without giving it any bytes.  May wait for a page's lock.
 * 0 or -errno (-ENOENT: the kernel does not know the file any more). */
int kr_shim_grow(struct fuse_session *fuse, uint64_t number, uint64_t size);
/* Writes a notification, of at least a struct fuse_out_header, to FD (/dev/fuse).  What MESSAGE lacks of the length
 * that it says has an invalid address.  May wait for a page's lock.  0 or -errno. */
int kr_shim_notify(int fd, const void *message, size_t length);
/* Before the first request: asks for passthrough and, where the kernel has it, to clear set-id bits itself no more at
 * writes, truncation and chown (FUSE_HANDLE_KILLPRIV_V2): the daemon's file system does.  Passthrough is there then if
 * kr_shim_passthrough says so, after INIT (Linux 6.9 and later). */
void kr_shim_want_passthrough(void);
bool kr_shim_passthrough(void);
/* Whether a shared mapping of a direct_io handle works on this kernel (known after INIT). */
bool kr_shim_direct_io_mmap(void);

/* Of the pages of this machine's kernel: 4 KiB, on arm64 also 16 or 64 KiB. */
uint64_t kr_kernel_page(void);

#endif
