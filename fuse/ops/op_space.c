/* FALLOCATE, LSEEK (data and holes) and COPY_FILE_RANGE.  The server does them on its files, after the node has flushed
 * its own bytes.
 */
#include <errno.h>
#include <unistd.h>

#include "fuse/ops/op_file.h"

/* Whether OP's request can be sent: it has not been yet, and what this node has of FILE is flushed.  Else OP waits for
 * that, or has its answer. */
static bool may_send(struct kr_op *op, struct kr_file *file, struct kr_file_waiter *waiter)
{
	int err;

	if (op->call)
		return false;
	err = kr_op_given_up(op);
	if (!err)
		err = kr_file_before_change(file, waiter, UINT64_MAX);
	if (err == -EAGAIN)
		kr_op_waits_for(op, KR_WAIT_FLUSH);
	else if (err)
		kr_op_reply_err(op, err);
	return err == 0;
}

/* --- fallocate -------------------------------------------------------------------------------- */

struct fallocate_op {
	struct kr_file_op file_op;
	struct kr_fallocate_request msg;
};

static void on_fallocated(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_fallocate_reply *reply = message;
	struct kr_file_op *file_op = KR_CONTAINER_OF(op, struct kr_file_op, op);

	(void)data;
	kr_file_after_change(file_op->file, err, UINT64_MAX, err ? NULL : &reply->attr);
	kr_op_reply_err(op, err);
}

static void step_fallocate(struct kr_op *op)
{
	struct fallocate_op *fallocate = KR_CONTAINER_OF(op, struct fallocate_op, file_op.op);

	if (may_send(op, fallocate->file_op.file, &fallocate->file_op.waiter))
		kr_op_send(op, KR_MSG_FALLOCATE, &fallocate->msg, 0, on_fallocated);
}

void kr_op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi)
{
	struct kr_handle *handle = kr_handle_of(fi);
	struct fallocate_op *op = kr_file_op_new(sizeof(*op), req, "fallocate", handle->file, step_fallocate);

	(void)ino;
	if (!op)
		return;
	op->msg = (struct kr_fallocate_request){.file = handle->file->fid,
		.mode = (uint32_t)mode,
		.offset = (uint64_t)offset,
		.length = (uint64_t)length};
	kr_op_keep_cred(&op->file_op.op, &op->msg.cred);
	kr_op_post(&op->file_op.op);
}

/* --- lseek ------------------------------------------------------------------------------------ */

struct seek_op {
	struct kr_file_op file_op;
	struct kr_seek_request msg;
};

static void on_sought(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_seek_reply *reply = message;

	(void)data;
	if (err) {
		kr_op_reply_err(op, err);
		return;
	}
	fuse_reply_lseek(kr_op_finish(op), (off_t)reply->offset);
	kr_op_free(op);
}

static void step_seek(struct kr_op *op)
{
	struct seek_op *seek = KR_CONTAINER_OF(op, struct seek_op, file_op.op);

	if (may_send(op, seek->file_op.file, &seek->file_op.waiter))
		kr_op_send(op, KR_MSG_SEEK, &seek->msg, KR_RPC_READ_ONLY, on_sought);
}

void kr_op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	struct kr_handle *handle = kr_handle_of(fi);
	struct seek_op *op;

	(void)ino;
	if (whence != SEEK_DATA && whence != SEEK_HOLE) {
		fuse_reply_err(req, EINVAL); /* the kernel does the other kinds itself */
		return;
	}
	op = kr_file_op_new(sizeof(*op), req, "lseek", handle->file, step_seek);
	if (!op)
		return;
	op->msg = (struct kr_seek_request){
		.file = handle->file->fid, .offset = (uint64_t)offset, .whence = (uint32_t)whence};
	kr_op_post(&op->file_op.op);
}

/* --- copy_file_range -------------------------------------------------------------------------- */

struct copy_op {
	struct kr_file_op to; /* first */
	struct kr_file_waiter from_waiter;
	struct kr_file *from; /* a reference */
	struct kr_copy_request msg;
};

static void on_copied(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_copy_reply *reply = message;
	struct copy_op *copy = KR_CONTAINER_OF(op, struct copy_op, to.op);

	(void)data;
	kr_file_after_change(copy->to.file, err, UINT64_MAX, NULL);
	if (err) {
		kr_op_reply_err(op, err);
		return;
	}
	fuse_reply_write(kr_op_finish(op), (size_t)reply->copied);
	kr_op_free(op);
}

static void step_copy(struct kr_op *op)
{
	struct copy_op *copy = KR_CONTAINER_OF(op, struct copy_op, to.op);

	if (may_send(op, copy->from, &copy->from_waiter) && may_send(op, copy->to.file, &copy->to.waiter))
		kr_op_send(op, KR_MSG_COPY, &copy->msg, 0, on_copied);
}

static void wake_copy(struct kr_waiter *waiter)
{
	step_copy(&KR_CONTAINER_OF(waiter, struct copy_op, from_waiter.waiter)->to.op);
}

static void fini_copy(struct kr_op *op)
{
	struct copy_op *copy = KR_CONTAINER_OF(op, struct copy_op, to.op);

	kr_file_unwait(&copy->from_waiter);
	kr_file_put(copy->from);
	kr_file_op_fini(op);
}

void kr_op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in, struct fuse_file_info *fi_in,
	fuse_ino_t ino_out, off_t offset_out, struct fuse_file_info *fi_out, size_t length, int flags)
{
	struct kr_file *from = kr_handle_of(fi_in)->file, *to = kr_handle_of(fi_out)->file;
	struct copy_op *op;

	(void)ino_in, (void)ino_out;
	if (flags) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	op = kr_file_op_new(sizeof(*op), req, "copy_file_range", to, step_copy);
	if (!op)
		return;
	op->to.op.fini = fini_copy;
	op->from = kr_file_get(from);
	op->from_waiter.waiter.wake = wake_copy;
	op->msg = (struct kr_copy_request){.from = from->fid,
		.from_offset = (uint64_t)offset_in,
		.to = to->fid,
		.to_offset = (uint64_t)offset_out,
		.length = length};
	kr_op_keep_cred(&op->to.op, &op->msg.cred);
	kr_op_post(&op->to.op);
}
