/* Requests of programs beyond POSIX (common/kairan_ioctl.h): the mount's facts, relaxed handles, and batches.  A batch
 * is many extents in one write to the batch file, or one read from it.  The batch file exists on this node only.
 *
 * Its inode number is KR_INODE_BATCH_FILE, and no server knows its file identity (kr_inode_fid).  It has no extended
 * attributes, and nobody can change its attributes (EPERM).  The server answers every other request for it as for a
 * file that is gone.
 *
 * Threads: the functions here run in any libfuse worker.  A write that has to wait goes on in the loop; a read never
 * waits.
 */
#ifndef KR_FUSE_BATCH_H
#define KR_FUSE_BATCH_H

#include "common/kairan_ioctl.h"
#include "fuse/ops/op_file.h"

struct kr_batches;

enum { KR_BATCH_MAX = 1 << 20 };

struct kr_batches *kr_batches_new(void);
/* No handle is open any more. NULL is fine. */
void kr_batches_free(struct kr_batches *batches);

/* Tells the token of a handle, and makes it at the first call.  0; -EINVAL: programs cannot write this handle by
 * batches. */
int kr_batch_token(struct kr_batches *batches, struct kr_handle *handle, struct kr_batch_token *ret_token);
/* The handle closes: drops its token, and its question to the batch file.  Call it before the handle is freed. */
void kr_batch_forget(struct kr_batches *batches, struct kr_handle *handle);

/* Checks a batch of SIZE bytes in DATA, which must be 8-byte aligned.  0, with the extents and their bytes inside DATA;
 * a batch to be read has no bytes (head->magic tells).  Else -EINVAL or -EFBIG. */
int kr_batch_parse(const void *data, size_t size, const struct kr_batch_head **ret_head,
	const struct kr_batch_extent **ret_extents, const char **ret_bytes);

/* Serves a write(2) to the batch file, and a read(2) of the extents that the last write named. */
void kr_batch_write(fuse_req_t req, struct kr_handle *batch_file, const char *data, size_t size);
void kr_batch_read(fuse_req_t req, struct kr_handle *batch_file, size_t size, uint64_t offset);
/* LOOKUP of the batch file's name in the root, GETATTR and OPEN of its number. */
void kr_batch_lookup(fuse_req_t req);
void kr_batch_getattr(fuse_req_t req);
void kr_batch_open(fuse_req_t req, const struct fuse_file_info *fi);

#endif
