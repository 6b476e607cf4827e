/* GETLK, SETLK and FLOCK.  OFD locks come as SETLK with an owner of their own. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "fuse/file/locks.h"
#include "fuse/ops/op_file.h"

struct lock_op {
	struct kr_file_op file_op;
	struct kr_lock want;
	bool wait;
	struct kr_lock_call *call;
};

static void on_locked(void *context, int err)
{
	struct lock_op *lock = context;

	lock->call = NULL;
	kr_op_reply_err(&lock->file_op.op, err);
}

static void step_lock(struct kr_op *op)
{
	struct lock_op *lock = KR_CONTAINER_OF(op, struct lock_op, file_op.op);
	struct kr_file *file = lock->file_op.file;

	if (op->interrupted) {
		if (lock->call)
			kr_locks_abandon(lock->call);
		kr_op_reply_err(op, -EINTR);
	} else if (!lock->call && lock->want.kind == KR_LOCK_NONE && !kr_locks_any(file, &lock->want.owner)) {
		kr_op_reply_err(op, 0);
	} else if (!lock->call) {
		kr_op_waits_for(op, KR_WAIT_LEASE);
		lock->call = kr_locks_ask(file, &lock->want, lock->wait, on_locked, lock);
	}
}

static void start(fuse_req_t req, struct fuse_file_info *fi, struct kr_lock *want, bool wait)
{
	struct kr_handle *handle = kr_handle_of(fi);
	struct lock_op *op;

	if (want->kind != KR_LOCK_NONE && atomic_load(&handle->lost_lock)) {
		fuse_reply_err(req, EIO);
		return;
	}
	op = kr_file_op_new(sizeof(*op), req, "lock", handle->file, step_lock);
	if (!op)
		return;
	want->owner.id = fi->lock_owner;
	want->via = (uintptr_t)handle;
	op->want = *want;
	op->wait = op->file_op.op.any_signal = wait;
	kr_op_post(&op->file_op.op);
}

static uint8_t kind_of(const struct flock *lock)
{
	return lock->l_type == F_WRLCK ? KR_LOCK_WRITE : lock->l_type == F_RDLCK ? KR_LOCK_READ : KR_LOCK_NONE;
}

static uint64_t first_of(const struct flock *lock)
{
	return (uint64_t)lock->l_start & KR_LOCK_END;
}

static uint64_t last_of(const struct flock *lock)
{
	uint64_t room = KR_LOCK_END - first_of(lock);

	return lock->l_len <= 0 || (uint64_t)lock->l_len - 1 > room ? KR_LOCK_END :
								      first_of(lock) + (uint64_t)lock->l_len - 1;
}

void kr_op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock, int wait)
{
	struct kr_lock want = {
		.first = first_of(lock), .last = last_of(lock), .kind = kind_of(lock), .pid = (uint32_t)lock->l_pid};

	(void)ino;
	start(req, fi, &want, wait != 0);
}

void kr_op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int operation)
{
	struct kr_lock want = {.owner.flock = true, .last = KR_LOCK_END, .pid = (uint32_t)fuse_req_ctx(req)->pid};

	(void)ino;
	if (operation & LOCK_EX)
		want.kind = KR_LOCK_WRITE;
	else if (operation & LOCK_SH)
		want.kind = KR_LOCK_READ;
	start(req, fi, &want, !(operation & LOCK_NB));
}

static void on_tested(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_lock_test_reply *reply = message;
	struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

	(void)data;
	if (err) {
		kr_op_reply_err(op, err);
		return;
	}
	if (reply->kind != KR_LOCK_NONE) {
		lock.l_type = reply->kind == KR_LOCK_WRITE ? F_WRLCK : F_RDLCK;
		lock.l_start = (off_t)(reply->first & KR_LOCK_END);
		lock.l_len = reply->last >= KR_LOCK_END ? 0 : (off_t)(reply->last - reply->first + 1);
		lock.l_pid = (pid_t)reply->pid;
	}
	fuse_reply_lock(kr_op_finish(op), &lock);
	kr_op_free(op);
}

void kr_op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock)
{
	struct kr_lock_test_request request = {.file = kr_handle_of(fi)->file->fid,
		.owner = fi->lock_owner,
		.kind = kind_of(lock),
		.first = first_of(lock),
		.last = last_of(lock)};

	(void)ino;
	kr_op_request(req, "getlk", KR_MSG_LOCK_TEST, &request, KR_RPC_READ_ONLY, on_tested);
}
