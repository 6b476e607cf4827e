/* WRITE: one record in the journal, in a libfuse worker if the lease is there; else the op waits for it in the loop.
 *
 * An append needs READ and WRITE: then nobody else writes, and the end of the file is known.  A page that a mapping wrote
 * is journaled at once, without a lease: the kernel holds its lock, and an invalidation that a recall waits for may wait
 * for that.  It goes to the server when WRITE has come, or while READ is being recalled from everybody.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "common/fault.h"
#include "fuse/batch.h"
#include "fuse/notify.h"
#include "fuse/op_file.h"

struct write {
	struct kr_file *file;
	const char *data;
	size_t size;
	uint64_t offset;
	bool append, page;
	struct kr_handle *handle;
	int sync;        /* O_SYNC, O_DSYNC: answered when it is stable at the server */
	bool clear_suid;
	size_t done;
	bool invalidate; /* the kernel may have pages of this range from before */
};

struct write_op {
	struct kr_file_op file_op;
	struct write write;
	char data[];
};

/* The answer to a write waits for the invalidation of the pages it changed. */
struct invalidation {
	struct kr_notify_job job;
	fuse_req_t req;
	struct write write; /* its data is not there any more */
};

enum verdict { DONE, GATED, STALE, FULL, FAILED };

static uint8_t kinds_of(const struct write *write)
{
	return kr_file_write_kinds(write->file, write->append);
}

/* FAILED: *RET_ERR says why. A write of which something went in is done. */
static enum verdict try_write(struct write *write, int *ret_err)
{
	struct kr_file *file = write->file;
	uint64_t offset;
	int err;

	KR_SCOPED_LOCK(&file->lock);
	if (!write->page && atomic_load_explicit(&write->handle->lost_lock, memory_order_relaxed)) {
		*ret_err = -EIO;
		return FAILED;
	}
	if (!write->page && (kr_mount_fenced(file->mount) || !kr_holder_has(&file->holder, kinds_of(write))))
		return GATED;
	if (write->append && file->stale)
		return STALE;
	offset = write->append ? kr_file_end(file) : write->offset;
	if (offset > INT64_MAX - write->size) {
		*ret_err = -EFBIG;
		return FAILED;
	}
	write->offset = offset;
	if (!write->page && atomic_load_explicit(&write->handle->bursts, memory_order_relaxed))
		kr_flush_burst(file);
	err = kr_file_append(file, offset, write->data, write->size,
		&(struct kr_write_how){ .page = write->page, .clear_suid = write->clear_suid }, &write->done);
	if (write->done) {
		write->invalidate = file->holder.pages && !write->page;
		return DONE;
	}
	*ret_err = err;
	if (err)
		return err == -EAGAIN ? FULL : FAILED;
	return DONE;
}

static void answer_now(fuse_req_t req, const struct write *write)
{
	if (write->sync && write->done)
		kr_op_sync_write(req, write->handle, write->done, (write->sync & O_SYNC) != O_SYNC);
	else
		fuse_reply_write(req, write->done);
}

static void invalidated(struct kr_notify_job *job, int err)
{
	struct invalidation *invalidation = KR_CONTAINER_OF(job, struct invalidation, job);

	(void)err; /* recall.c reports those; a page that could not go is a mapping's that is just being written */
	answer_now(invalidation->req, &invalidation->write);
	free(invalidation);
}

/* Any thread. */
static void answer(fuse_req_t req, uint64_t nodeid, const struct write *write)
{
	struct kr_mount *mount = write->file->mount;
	struct invalidation *invalidation;

	(void)KR_FAULT("write.after");
	if (!write->invalidate) {
		answer_now(req, write);
		return;
	}
	invalidation = kr_xcalloc(1, sizeof(*invalidation));
	invalidation->req = req;
	invalidation->write = *write;
	invalidation->job.nodeid = nodeid;
	invalidation->job.count = 1;
	invalidation->job.ranges[0] = (struct kr_range){ .offset = write->offset, .length = write->done };
	invalidation->job.done = invalidated;
	kr_notify_invalidate(mount->notifier, &invalidation->job);
}

static void step_write(struct kr_op *op)
{
	struct write_op *write_op = KR_CONTAINER_OF(op, struct write_op, file_op.op);
	struct kr_file *file = write_op->file_op.file;
	struct kr_mount *mount = op->mount;
	struct write *write = &write_op->write;
	enum verdict verdict;
	int err = 0, lease_error = kr_file_lease_error(file);

	/* Also looked at without a lease being needed any more: a page must not be lost, whoever was interrupted. */
	verdict = op->interrupted && !write->page ? FAILED : try_write(write, &err);
	if (verdict == DONE) {
		uint64_t nodeid = kr_inode_find(mount->inodes, &file->fid);

		answer(kr_op_finish(op), nodeid, write);
		kr_op_free(op);
	} else if (verdict == FAILED || (verdict != FULL && lease_error)) {
		kr_op_reply_err(op, op->interrupted ? -EINTR : err ? err : lease_error);
	} else if (op->late && !write->page) {
		kr_op_reply_err(op, -ETIMEDOUT);
	} else if (verdict == GATED) {
		kr_file_op_wait(&write_op->file_op, kinds_of(write));
	} else if (verdict == STALE) {
		kr_file_refresh(file);
		kr_file_op_wait(&write_op->file_op, kinds_of(write));
	} else if ((err = kr_flusher_hopeless(mount->flusher)) != 0) {
		kr_op_reply_err(op, err);
	} else {
		kr_flusher_need_space(mount->flusher);
		kr_files_wait_space(mount->files, op);
	}
}

static bool by_the_unprivileged(fuse_req_t req)
{
	return fuse_req_ctx(req)->uid != 0;
}

void kr_op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct kr_handle *handle = kr_handle_of(fi);
	struct write write = { .file = handle->file, .data = data, .size = size, .offset = (uint64_t)offset,
		.append = (fi->flags & O_APPEND) && !fi->writepage, .page = fi->writepage, .handle = handle,
		.sync = fi->writepage ? 0 : fi->flags & (O_SYNC | O_DSYNC),
		.clear_suid = !fi->writepage && by_the_unprivileged(req) };
	struct write_op *op;
	int err = KR_FAULT("write.before");
	enum verdict verdict;

	if (handle->door) {
		kr_batch_write(req, handle, data, size);
		return;
	}
	verdict = err ? FAILED : try_write(&write, &err);
	if (verdict == DONE) {
		answer(req, ino, &write);
		return;
	}
	if (verdict == FAILED) {
		fuse_reply_err(req, -err);
		return;
	}
	op = kr_file_op_new(sizeof(*op) + size, req, "write", handle->file, step_write);
	if (!op)
		return;
	memcpy(op->data, data, size);
	op->write = write;
	op->write.data = op->data;
	kr_op_post(&op->file_op.op);
}
