/* What the data operations share: ops that wait for a file, and how bytes get into the journal.  For op_open.c,
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
	bool page;       /* a page of a mapping, whatever lease there is */
	bool clear_suid; /* by a caller who may not keep set-id bits */
};
/* The kinds that a write needs.  WRITE alone is shared with writers on other nodes, and between them the order of two
 * writes of one byte is not kept (P3); with READ it is exclusive. */
uint8_t kr_file_write_kinds(const struct kr_file *file, bool append);
/* Journals bytes as one write of the file, adding to *DONE what has gone in. 0; -EAGAIN: the journal is full; else the
 * disk's error. [lock] held; any thread. */
int kr_file_append(struct kr_file *file, uint64_t offset, const char *data, size_t length,
	const struct kr_write_how *how, size_t *done);

/* An op that waits for a file: woken by a step of it. */
struct kr_file_op {
	struct kr_op op; /* first */
	struct kr_file_waiter waiter;
	struct kr_file *file; /* a reference */
};

/* As kr_op_new, for an op that begins with a struct kr_file_op; takes a reference of FILE. */
void *kr_file_op_new(
	size_t size, fuse_req_t req, const char *name, struct kr_file *file, void (*step)(struct kr_op *op));
/* What every such op's fini must do. */
void kr_file_op_fini(struct kr_op *op);
/* Loop thread: steps the op when the file changes. KINDS: what it needs, 0 for nothing in particular. */
void kr_file_op_wait(struct kr_file_op *op, uint8_t kinds);

/* Answers a write of WRITTEN bytes, journaled already, when it is on the server's stable storage (O_SYNC, O_DSYNC). Any
 * thread. */
void kr_op_sync_write(fuse_req_t req, struct kr_handle *handle, size_t written, bool data_only);

#endif
