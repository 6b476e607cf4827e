/* What the data operations share: open handles, and ops that wait for a file.  For open.c, op_read.c, op_write.c,
 * op_sync.c, op_space.c and recall.c.
 */
#ifndef KR_FUSE_OP_FILE_H
#define KR_FUSE_OP_FILE_H

#include "common/kairan_ioctl.h"
#include "fuse/file/file.h"
#include "fuse/ops/op.h"

/* fi->fh: one open(2). */
struct kr_handle {
	struct kr_link link;  /* kr_file.handle_list */
	struct kr_file *file; /* a reference */
	bool readable, writable;
	bool direct;           /* the kernel's read(2) does not go through its pages (a mapping's faults still do) */
	bool paged;            /* for writing, and its write(2) fills the kernel's pages on the way (op_write.c) */
	bool mappable;         /* programs may map it for storing; counted in file->mappable */
	bool plain;            /* for writing, neither O_APPEND nor O_SYNC: batches may write through it */
	bool batch_file;       /* of the batch file (batch.h), not of a file */
	atomic_bool lost_lock; /* it had a lock, and others may have had it since: only closing it helps (locks.h) */
	atomic_bool relaxed;   /* coherence=relaxed, KR_IOC_RELAXED; direct handles only */
	atomic_bool bursts;    /* batches go through it too (it has a token): what comes is a burst (kr_flush_burst) */
	uint32_t errors_seen;  /* [loop] failed flushes that this handle need not be told of any more */
	bool has_token;        /* batch.c's, guarded by its lock, as the next three */
	struct kr_batch_token token;
	struct kr_table_link by_token;
	struct kr_batch_ask *ask; /* of a batch file: what a read of it means; also batch.c's */
	struct kr_task release_task;
};

static inline struct kr_handle *kr_handle_of(const struct fuse_file_info *fi)
{
	return (struct kr_handle *)(uintptr_t)fi->fh;
}

/* A handle of the file, whose reference it takes over; counted in file->handles.  Loop thread. */
struct kr_handle *kr_handle_new(struct kr_file *file);
/* The kernel has closed it, or never heard of it. Loop thread. */
void kr_handle_release(struct kr_handle *handle);
/* The mount is gone, and with it the RELEASEs of handles that the kernel had still open or was just closing. The loop
 * does not run any more. */
void kr_handles_abandon(struct kr_file *file);

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

/* KR_IOC_STAGE (op_stage.c). Any thread. */
void kr_op_stage(fuse_req_t req, struct kr_handle *handle, const struct kr_stage_state *asked);

/* A read, or a write through the kernel's pages, that waits at the gate. */
struct kr_pool_share_member {
	struct kr_link link; /* kr_file.gated */
	uint64_t offset, length;
	bool page;    /* a read surely for the kernel's pages: they are locked, and hold nothing old */
	bool through; /* the dropping of pages may wait for it: it is served under the lease that goes */
};

#endif
