/* FLUSH (a program closes a descriptor) and FSYNC.  The answer is an error, or all bytes written before are applied
 * (FLUSH) or stable (FSYNC).  Then no node reads the former bytes any more.  The server sees to that, because pages of
 * mappings may have gone to the server while other nodes had the file cached (lease_state.h).
 *
 * A close ends the byte-range locks of the process on the file, whichever descriptor it closes.
 */
#include <errno.h>

#include "fuse/file/locks.h"
#include "fuse/ops/op_file.h"
#include "fuse/base/options.h"
#include "fuse/writeback/flush.h"

struct sync_op {
	struct kr_file_op file_op;
	struct kr_handle *handle;
	enum kr_flush_reason reason;
	bool fsync, data_only, begun, asked;
	bool of_write; /* for a write(2) that must be stable when it returns; the answer is `written` */
	size_t written;
	uint64_t seq;               /* all writes up to this one must be applied */
	uint32_t errors;            /* failed flushes when the op asked for one */
	uint32_t unseen;            /* file->flush->unseen when FSYNC was sent */
	uint64_t behind;            /* the FLUSH behind which FSYNC went out without waiting for its reply; 0: none */
	bool synced;                /* the server has replied to FSYNC; counts for applied bytes */
	struct kr_lock_owner owner; /* of a close */
	struct kr_lock_call *unlock;
	int report; /* the answer, after the unlock */
};

static void step_sync(struct kr_op *op);

/* Whether the server has applied all bytes of the op. */
static bool is_applied(struct sync_op *sync)
{
	struct kr_file *file = sync->file_op.file;

	if (sync->fsync && kr_flush_is_unstable(file->flush))
		return false;
	KR_SCOPED_LOCK(&file->lock);
	return kr_extent_map_empty(&file->dirty) || (sync->begun && file->flushed_seq >= sync->seq);
}

static void answer(struct sync_op *sync, int err)
{
	struct kr_op *op = &sync->file_op.op;

	if (err || !sync->of_write) {
		kr_op_reply_err(op, err);
		return;
	}
	fuse_reply_write(kr_op_finish(op), sync->written);
	kr_op_free(op);
}

static void on_unlocked(void *context, int err)
{
	struct sync_op *sync = context;

	(void)err;
	sync->unlock = NULL;
	answer(sync, sync->report);
}

/* Whether the op has its answer already, and only waits for the unlock. */
static bool unlocking(struct sync_op *sync)
{
	struct kr_op *op = &sync->file_op.op;

	if (!sync->unlock)
		return false;
	if (op->interrupted || !kr_rpc_connected(op->mount->rpc)) { /* a program must be able to end without a server */
		kr_locks_abandon(sync->unlock);
		sync->unlock = NULL;
		answer(sync, sync->report);
	} else {
		kr_files_wait_space(op->mount->files, &op->waiter); /* steps the op now and then */
	}
	return true;
}

/* Answers; a close first gives the locks up.  They go also when no program waits for the close any more. */
static void finish(struct sync_op *sync, int report)
{
	struct kr_op *op = &sync->file_op.op;
	struct kr_file *file = sync->file_op.file;
	struct kr_lock all = {.owner = sync->owner, .last = KR_LOCK_END};
	bool locked = !sync->fsync && kr_locks_held(file, &sync->owner);

	sync->report = report;
	if (locked && !op->interrupted) {
		sync->unlock = kr_locks_ask(file, &all, false, on_unlocked, sync);
		unlocking(sync);
		return;
	}
	if (locked)
		kr_locks_ask(file, &all, false, NULL, NULL);
	answer(sync, report);
}

/* The server tells a failed sync twice: by UNSTABLE, then by the reply.  The program gets one error. */
static void note_told(struct sync_op *sync, int err)
{
	struct kr_file *file = sync->file_op.file;

	KR_SCOPED_LOCK(&file->lock);
	if (file->error == err)
		sync->handle->errors_seen = file->error_count;
}

/* Meanwhile the server may have lost the bytes, with its machine or its disk: then the node sends them again first. */
static void on_fsynced(struct kr_op *op, int err, const void *reply, struct kr_buf *data)
{
	struct sync_op *sync = KR_CONTAINER_OF(op, struct sync_op, file_op.op);
	struct kr_file *file = sync->file_op.file;

	(void)reply, (void)data;
	if (err) {
		note_told(sync, err);
		finish(sync, err);
		return;
	}
	if (!sync->of_write)
		file->flush->seen = sync->unseen;
	sync->synced = !sync->behind || kr_flush_was_taken(file, sync->behind);
	sync->behind = 0;
	step_sync(op);
}

static void send_fsync(struct sync_op *sync, const struct kr_fsync_request *request)
{
	kr_op_send(&sync->file_op.op, KR_MSG_FSYNC, request, 0, on_fsynced);
	kr_op_waits_for(&sync->file_op.op, KR_WAIT_FLUSH);
}

/* The flags of FSYNC; 0: no FSYNC is needed.  A write need not wait until other nodes drop their pages.  If it went in
 * under WRITE, they had dropped them; if it was let through, this node's own dropping waits for it. */
static uint8_t fsync_flags(const struct sync_op *sync)
{
	const struct kr_flush *flush = sync->file_op.file->flush;

	if (!sync->fsync)
		return flush->seen != flush->unseen ? KR_FSYNC_SEEN | KR_FSYNC_APPLIED : 0;
	return (uint8_t)((sync->data_only ? KR_FSYNC_DATA : 0) | (sync->of_write ? 0 : KR_FSYNC_SEEN));
}

/* Everything is applied: goes on with what is left to do.  REPORT: the error of an earlier flush that the program has
 * not got through this handle. */
static void applied(struct sync_op *sync, int report)
{
	struct kr_fsync_request request = {.file = sync->file_op.file->fid, .flags = fsync_flags(sync)};

	sync->unseen = sync->file_op.file->flush->unseen;
	if ((request.flags || sync->fsync) && !report && !sync->synced)
		send_fsync(sync, &request);
	else
		finish(sync, report);
}

/* Sends FSYNC right behind the FLUSH that it needs, which spares a round trip.  Its reply counts if the server took
 * that FLUSH. */
static void sync_behind(struct sync_op *sync)
{
	struct kr_file *file = sync->file_op.file;
	struct kr_fsync_request request = {.file = file->fid, .flags = fsync_flags(sync) | KR_FSYNC_BEHIND};

	sync->behind = sync->fsync ? kr_flush_under_way(file, sync->seq) : 0;
	sync->unseen = file->flush->unseen;
	if (sync->behind)
		send_fsync(sync, &request);
}

static void step_sync(struct kr_op *op)
{
	struct sync_op *sync = KR_CONTAINER_OF(op, struct sync_op, file_op.op);
	struct kr_file *file = sync->file_op.file;
	uint32_t errors;
	bool done;
	int error;

	if (op->call || unlocking(sync))
		return;
	pthread_mutex_lock(&file->lock);
	if (!sync->begun)
		sync->seq = file->written_seq;
	errors = file->error_count;
	error = file->error;
	pthread_mutex_unlock(&file->lock);
	done = is_applied(sync);
	sync->begun = true;

	/* Bytes that are not applied have failed, even if another op of this handle has reported that first. */
	if (done || file->flush->orphaned || (sync->asked && errors != sync->errors)) {
		int report = !done || errors != sync->handle->errors_seen ? error : 0;

		sync->handle->errors_seen = errors;
		applied(sync, report);
		return;
	}
	if (kr_op_given_up(op)) { /* the bytes stay in the journal until the server takes them */
		finish(sync, kr_op_given_up(op));
		return;
	}
	sync->synced = false;
	kr_file_op_wait(&sync->file_op, 0);
	kr_op_waits_for(op, KR_WAIT_FLUSH);
	if (!sync->asked) {
		sync->asked = true;
		sync->errors = errors;
		kr_flush_ask(file, sync->reason);
	}
	sync_behind(sync);
}

/* close=async: the bytes are in the journal; the answer reports earlier failures only. */
static void step_close_async(struct kr_op *op)
{
	struct sync_op *sync = KR_CONTAINER_OF(op, struct sync_op, file_op.op);
	struct kr_file *file = sync->file_op.file;
	int report;

	if (unlocking(sync))
		return;
	pthread_mutex_lock(&file->lock);
	report = file->error_count != sync->handle->errors_seen ? file->error : 0;
	sync->handle->errors_seen = file->error_count;
	pthread_mutex_unlock(&file->lock);
	kr_flush_ask(file, KR_FLUSH_AGE);
	finish(sync, report);
}

/* A close of a handle that cannot write. */
static void step_close_locked(struct kr_op *op)
{
	struct sync_op *sync = KR_CONTAINER_OF(op, struct sync_op, file_op.op);

	if (!unlocking(sync))
		finish(sync, 0);
}

void kr_op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct kr_handle *handle = kr_handle_of(fi);
	bool async = kr_op_mount(req)->options->close == KR_CLOSE_ASYNC;
	bool locked = atomic_load(&handle->file->locked);
	struct sync_op *op;

	(void)ino;
	if (!handle->writable && !locked) {
		fuse_reply_err(req, 0);
		return;
	}
	op = kr_file_op_new(sizeof(*op), req, "flush", handle->file,
		!handle->writable ? step_close_locked :
			async     ? step_close_async :
				    step_sync);
	if (!op)
		return;
	op->handle = handle;
	op->owner.id = fi->lock_owner;
	op->reason = KR_FLUSH_CLOSE;
	kr_op_post(&op->file_op.op);
}

void kr_op_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	struct kr_handle *handle = kr_handle_of(fi);
	struct sync_op *op;

	(void)ino;
	if (atomic_load(&handle->lost_lock)) {
		fuse_reply_err(req, EIO);
		return;
	}
	op = kr_file_op_new(sizeof(*op), req, "fsync", handle->file, step_sync);
	if (!op)
		return;
	op->handle = handle;
	op->reason = KR_FLUSH_SYNC;
	op->fsync = true;
	op->data_only = data_only != 0;
	kr_op_post(&op->file_op.op);
}

void kr_op_sync_write(fuse_req_t req, struct kr_handle *handle, size_t written, bool data_only)
{
	struct sync_op *op = kr_file_op_new(sizeof(*op), req, "write", handle->file, step_sync);

	if (!op)
		return;
	op->handle = handle;
	op->reason = KR_FLUSH_SYNC;
	op->fsync = op->of_write = true;
	op->written = written;
	op->data_only = data_only;
	kr_op_post(&op->file_op.op);
}
