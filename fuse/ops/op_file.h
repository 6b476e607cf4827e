/* Shared by the data operations: ops that wait for a file, and how bytes get into the journal.  For op_open.c,
 * op_read.c, op_write.c, op_sync.c and op_space.c.
 */
#ifndef KR_FUSE_OP_FILE_H
#define KR_FUSE_OP_FILE_H

#include "fuse/file/handle.h"
#include "fuse/ops/op.h"

static inline struct kr_handle *kr_handle_of(const struct fuse_file_info *fi)
{
	return (struct kr_handle *)(uintptr_t)fi->fh;
}

/* How bytes get into the journal. */
struct kr_write_how {
	bool page;       /* a page of a mapping, whatever lease the node holds */
	bool clear_suid; /* the caller may not keep set-id bits */
};
/* The lease kinds that a write needs.  Nodes share WRITE alone, and between them two writes of one byte have no fixed
 * order (P3).  WRITE with READ is exclusive. */
uint8_t kr_file_write_kinds(const struct kr_file *file, bool append);
/* Journals bytes as one write of the file, and adds the count of journaled bytes to *DONE.  0; -EAGAIN: the journal is
 * full; else the disk's error.  [lock] held; any thread. */
int kr_file_append(struct kr_file *file, uint64_t offset, const char *data, size_t length,
	const struct kr_write_how *how, size_t *done);

/* An op that waits for a file: woken by a step of it. */
struct kr_file_op {
	struct kr_op op; /* first */
	struct kr_file_waiter waiter;
	struct kr_file *file; /* a reference; NULL: none (yet) */
};

/* As kr_op_new, for an op that begins with a struct kr_file_op; takes a reference of FILE. */
void *kr_file_op_new(
	size_t size, fuse_req_t req, const char *name, struct kr_file *file, void (*step)(struct kr_op *op));
/* For such an op from kr_op_new, which gets its file later. */
void kr_file_op_init(struct kr_file_op *op);
/* Every such op's fini must call it. */
void kr_file_op_fini(struct kr_op *op);
/* Loop thread: steps the op when the file changes.  KINDS: the lease kinds that the op needs, 0 for none in particular.
 */
void kr_file_op_wait(struct kr_file_op *op, uint8_t kinds);

/* Answers a write of WRITTEN bytes, already journaled, when they are on the server's stable storage (O_SYNC, O_DSYNC).
 * Any thread. */
void kr_op_sync_write(fuse_req_t req, struct kr_handle *handle, size_t written, bool data_only);

#endif
