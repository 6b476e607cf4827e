/* Programs' requests beyond POSIX (common/kairan_ioctl.h): the mount's facts, relaxed handles, and batches: many
 * extents in one write to, or read from, the batch file, a file that is on this node only.
 *
 * The batch file has a node number of its own (KR_INODE_BATCH_FILE) and a file identity that no server knows
 * (kr_inode_fid), so that whatever else is asked of it fails at the server as for a file that is gone.
 *
 * Threads: the functions here run in any of libfuse's workers; a batch that has to wait goes on in the loop (reading
 * never waits).
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

/* The token of a handle, made when first asked for. 0; -EINVAL: not a handle that can be written this way. */
int kr_batch_token(struct kr_batches *batches, struct kr_handle *handle, struct kr_batch_token *ret_token);
/* The handle closes: its token dies, and what was asked through it. Before its memory goes. */
void kr_batch_forget(struct kr_batches *batches, struct kr_handle *handle);

/* Checks a batch of SIZE bytes. 0, with the extents and their bytes (none when it is to be read: head->magic tells)
 * inside DATA, which must be 8-byte aligned; else -EINVAL or -EFBIG. */
int kr_batch_parse(const void *data, size_t size, const struct kr_batch_head **ret_head,
	const struct kr_batch_extent **ret_extents, const char **ret_bytes);

/* A write(2) to the batch file; a read(2) of what the last one asked for. */
void kr_batch_write(fuse_req_t req, struct kr_handle *batch_file, const char *data, size_t size);
void kr_batch_read(fuse_req_t req, struct kr_handle *batch_file, size_t size, uint64_t offset);
/* LOOKUP of the batch file's name in the root, GETATTR and OPEN of its number. */
void kr_batch_lookup(fuse_req_t req);
void kr_batch_getattr(fuse_req_t req);
void kr_batch_open(fuse_req_t req, const struct fuse_file_info *fi);

#endif
