/* WRITE: one record in the journal.  A libfuse worker writes it if the node holds the lease; else the op waits for the
 * lease in the loop.
 *
 * An append needs READ and WRITE: then no other node writes, and the end of the file is known.  A write of a process
 * that has another file locked needs both, too (lock_owners.h).
 *
 * A page that a mapping wrote is journaled at once, whatever lease the node holds.  The kernel holds the page's lock;
 * an invalidation may wait for that lock, and a recall for the invalidation.  As a rule the node holds READ and WRITE
 * then, because they do not go before the pages (lease_state.h).  If they have been lost, or the page is that of a
 * paged handle, it goes to the server later: when WRITE has come, or while the server recalls READ from all nodes.
 *
 * Programs of the node may store into a page while another writes past it (kr_passed_write).  The store goes to the
 * journal with the page, after the write, but without the range of the write.
 *
 * A write through a paged handle (op_open.c) fills the kernel's pages before the request comes.  Pages that it covers
 * whole are valid then.  A page that it covers in part, and that no program has read, is locked until the answer.  So
 *   - without READ, under which alone pages may be valid, the pages that it has filled are dropped before the answer;
 *   - dropping pages may wait for the write while the write waits for WRITE.  Then it is let through: journaled without
 *     WRITE, like a page, and applied by the server before the answer.  A recall of READ from all nodes allows that;
 *   - while it waited under READ, a read may have filled its pages again, with the bytes of before: they are dropped.
 * That is not exact, so only mounts that ask for it do so.  Programs of this node can see the bytes before the answer.
 * After the answer to a write that was let through, other nodes may drop their pages a moment late.  So may this node,
 * with the one page that the write covers in part.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/fault.h"
#include "fuse/ops/batch.h"
#include "fuse/file/locks.h"
#include "fuse/base/notify.h"
#include "fuse/base/shim.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/ops/op_file.h"
#include "fuse/writeback/flush.h"

struct write {
	struct kr_file *file;
	const char *data;
	size_t size;
	uint64_t offset; /* as the kernel believes, also for an append */
	bool append, page;
	bool waited, through; /* see the head of this file */
	uint64_t process;     /* the owner of byte-range locks; 0: not known, or the process asks for no order */
	struct kr_handle *handle;
	int sync; /* O_SYNC, O_DSYNC: answered when it is stable at the server */
	bool clear_suid;
	bool cleared; /* the server has cleared the file's set-id bits for this write */
	size_t done;
	struct invalidation *invalidation; /* of pages, before the answer; NULL: none */
};

struct write_op {
	struct kr_file_op file_op;
	struct kr_parked_io parked;
	struct write write;
	struct kr_cred cred;
	char data[];
};

/* The answer to a write waits for the invalidation of the pages it changed. */
struct invalidation {
	struct kr_notify_job job;
	struct kr_passed_write passed; /* linked unless the pages have the written bytes */
	fuse_req_t req;
	struct write write; /* its data is gone */
};

enum verdict { DONE, GATED, STALE, SET_ID, FULL, FAILED };

static uint8_t kinds_of(const struct write *write)
{
	if (write->process && kr_locks_elsewhere(write->file, write->process))
		return KR_LEASE_ALL;
	return kr_file_write_kinds(write->file, write->append);
}

/* Whether the kernel may hold the lock of the write's last page. */
static bool may_lock_page(const struct write *write)
{
	const uint64_t end = write->offset + write->size, page = kr_kernel_page();

	return write->handle->paged && !write->page && (end % page || write->size < page);
}

/* Whether the server must clear the file's set-id bits before the answer.  A node that sets them recalls WRITE, so the
 * mode is known here. [lock] held. */
static bool must_clear(const struct write *write)
{
	const uint32_t mode = write->file->base.mode;

	return write->clear_suid && !write->cleared &&
		(mode & S_ISUID || (mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP));
}

/* Whether the journal may take the write now. [lock] held. */
static bool is_allowed(struct write *write)
{
	struct kr_lease_state *holder = &write->file->holder;

	if (write->page)
		return true;
	if (kr_mount_fenced(write->file->mount))
		return false;
	if (kr_lease_state_has(holder, kinds_of(write)))
		write->through = false;
	else if (!write->through || !kr_lease_state_write_through(holder))
		return false;
	return true;
}

/* The range of the kernel's pages to drop.  WRITTEN: the offset of the bytes; the kernel believes in write->offset.
 * [lock] held. */
static struct kr_range pages_to_drop(const struct write *write, uint64_t written)
{
	struct kr_lease_state *holder = &write->file->holder;
	const uint64_t page = kr_kernel_page();
	uint64_t first = (write->offset + page - 1) / page * page, end = (write->offset + write->size) / page * page;

	if (write->page || write->through)
		return (struct kr_range){0};
	if (!write->handle->paged)
		return (struct kr_range){.offset = written, .length = holder->pages ? write->done : 0};
	if (!kr_lease_state_has(holder, KR_LEASE_READ))
		return (struct kr_range){.offset = first, .length = end > first ? end - first : 0};
	kr_lease_state_cached(holder);
	if (write->waited || written != write->offset) /* O_APPEND was set later, and the kernel did not know the end */
		kr_lease_state_distrust(holder);
	return (struct kr_range){0};
}

/* WRITE, at the offset WRITTEN, is in the journal: what must become of the kernel's pages before the answer.  [lock]
 * held. */
static void plan_invalidation(struct write *write, uint64_t written)
{
	struct kr_range range = pages_to_drop(write, written);
	struct invalidation *invalidation;

	if (!range.length)
		return;
	invalidation = kr_xcalloc(1, sizeof(*invalidation));
	invalidation->job.count = 1;
	invalidation->job.ranges[0] = range;
	invalidation->passed.range = range;
	if (!write->handle->paged)
		kr_list_append(&write->file->pages.passed, &invalidation->passed.link);
	write->invalidation = invalidation;
}

/* Where the next bytes of [AT, END) begin that no write is just passing; *RET_END: where they end.  [lock] held. */
static uint64_t next_valid(const struct kr_file *file, uint64_t at, uint64_t end, uint64_t *ret_end)
{
	const struct kr_passed_write *passed;
	uint64_t begin;

	do {
		begin = at;
		KR_LIST_FOR_EACH(passed, &file->pages.passed, link)
			if (passed->range.offset <= at && at < passed->range.offset + passed->range.length)
				at = passed->range.offset + passed->range.length;
	} while (at != begin);
	*ret_end = end;
	KR_LIST_FOR_EACH(passed, &file->pages.passed, link)
		if (passed->range.offset > at)
			*ret_end = KR_MIN(*ret_end, passed->range.offset);
	return at;
}

/* Journals pages that a mapping wrote.  0, and all of it is done; else as kr_file_append, and the kernel's pages stay
 * until all could be journaled.  [lock] held. */
static int append_pages(struct write *write)
{
	uint64_t end = write->offset + write->size, until = write->offset, at;

	while ((at = next_valid(write->file, until, end, &until)) < end) {
		size_t done = 0;
		int err = kr_file_append(write->file, at, write->data + (at - write->offset), until - at,
			&(struct kr_write_how){.page = true}, &done);

		if (err)
			return err;
	}
	write->done = write->size;
	return 0;
}

/* Cuts the write off at the longest size that the server's filesystem can hold, as on a local disk.  False: no byte is
 * left. */
static bool clamp_to_max(struct write *write, uint64_t offset)
{
	uint64_t max = write->page ? INT64_MAX : kr_mount_file_max(write->file->mount);

	if (offset >= max)
		return false;
	write->size = KR_MIN(write->size, max - offset);
	return true;
}

/* FAILED: *RET_ERR says why.  A write that was journaled in part is done. */
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
	if (!is_allowed(write))
		return GATED;
	if (write->append && file->stale)
		return STALE;
	if (must_clear(write))
		return SET_ID;
	offset = write->append ? kr_file_end(file) : write->offset;
	if (!clamp_to_max(write, offset)) {
		*ret_err = -EFBIG;
		return FAILED;
	}
	if (!write->page && atomic_load_explicit(&write->handle->bursts, memory_order_relaxed))
		kr_flush_burst(file);
	err = write->page ?
		append_pages(write) :
		kr_file_append(file, offset, write->data, write->size,
			&(struct kr_write_how){.page = write->through, .clear_suid = write->clear_suid}, &write->done);
	if (write->done) {
		plan_invalidation(write, offset);
		return DONE;
	}
	*ret_err = err;
	if (err)
		return err == -EAGAIN ? FULL : FAILED;
	return DONE;
}

static void answer_now(fuse_req_t req, uint64_t nodeid, const struct write *write)
{
	if ((write->sync || write->through) && write->done) {
		kr_op_sync_write(req, write->handle, write->done, (write->sync & O_SYNC) != O_SYNC);
		return;
	}
	if (!write->page)
		kr_inode_size_grown(write->file->mount->inodes, nodeid, write->offset + write->done);
	fuse_reply_write(req, write->done);
}

static void invalidated(struct kr_notify_job *job, int err)
{
	struct invalidation *invalidation = KR_CONTAINER_OF(job, struct invalidation, job);
	struct kr_file *file = invalidation->write.file;

	(void)err; /* recall.c reports errors; a page that stays is of a mapping and just being written */
	pthread_mutex_lock(&file->lock);
	kr_list_remove(&invalidation->passed.link);
	pthread_mutex_unlock(&file->lock);
	answer_now(invalidation->req, job->nodeid, &invalidation->write);
	free(invalidation);
}

/* The file is dirty now, or more so: what the kernel holds of its attributes goes.  The kernel's request holds the
 * file, but not if it writes pages back: then the kernel may be evicting the file, and wait for the answer to this. */
static void drop_attributes(struct kr_mount *mount, const struct write *write)
{
	if (!write->page)
		kr_kernel_attrs_drop_held(mount, &write->file->fid);
	else
		kr_kernel_attrs_drop_later(mount, &write->file->fid);
}

/* Any thread. */
static void answer(fuse_req_t req, uint64_t nodeid, const struct write *write)
{
	struct kr_mount *mount = write->file->mount;
	struct invalidation *invalidation = write->invalidation;

	(void)KR_FAULT("write.after");
	drop_attributes(mount, write);
	if (!invalidation) {
		answer_now(req, nodeid, write);
		return;
	}
	invalidation->req = req;
	invalidation->write = *write;
	invalidation->job.nodeid = nodeid;
	invalidation->job.done = invalidated;
	kr_notify(mount->notifier, &invalidation->job);
}

static void fini_write(struct kr_op *op)
{
	struct write_op *write_op = KR_CONTAINER_OF(op, struct write_op, file_op.op);

	kr_list_remove(&write_op->parked.link);
	kr_file_op_fini(op);
}

static void wait_at_gate(struct write_op *write_op)
{
	if (may_lock_page(&write_op->write) && !kr_link_linked(&write_op->parked.link))
		kr_list_append(&write_op->write.file->pages.parked, &write_op->parked.link);
	kr_file_op_wait(&write_op->file_op, kinds_of(&write_op->write));
}

/* The error for a program whose write finds the journal full, because ERR keeps its bytes from leaving. */
static int why_full(struct kr_journal *journal, int err)
{
	struct kr_journal_usage usage;

	kr_journal_usage(journal, &usage);
	return usage.full ? usage.full : err;
}

static void step_write(struct kr_op *op);

static void on_cleared(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	struct write_op *write_op = KR_CONTAINER_OF(op, struct write_op, file_op.op);

	(void)data;
	if (err < 0) {
		kr_op_reply_err(op, err);
		return;
	}
	kr_file_after_change(write_op->file_op.file, 0, UINT64_MAX, &((const struct kr_setattr_reply *)message)->attr);
	write_op->write.cleared = true;
	step_write(op);
}

static void clear_set_id(struct write_op *write_op)
{
	struct kr_setattr_request msg = {.cred = write_op->cred,
		.file = write_op->file_op.file->fid,
		.valid = KR_SET_CLEAR_SUID | KR_SET_BY_HANDLE};

	kr_op_send(&write_op->file_op.op, KR_MSG_SETATTR, &msg, 0, on_cleared);
}

static void step_write(struct kr_op *op)
{
	struct write_op *write_op = KR_CONTAINER_OF(op, struct write_op, file_op.op);
	struct kr_file *file = write_op->file_op.file;
	struct kr_mount *mount = op->mount;
	struct write *write = &write_op->write;
	enum verdict verdict;
	int err = 0, lease_error = kr_file_lease_error(file);

	if (op->call)
		return;
	/* Tries also when no lease is needed any more: a page must not be lost, even if its program was interrupted. */
	write->through = write_op->parked.through;
	verdict = op->interrupted && !write->page ? FAILED : try_write(write, &err);
	if (verdict == DONE) {
		uint64_t nodeid = kr_inode_find(mount->inodes, &file->fid);

		answer(kr_op_finish(op), nodeid, write);
		kr_file_step(file);
		kr_op_free(op);
	} else if (verdict == FAILED || (verdict != FULL && lease_error)) {
		kr_op_reply_err(op, op->interrupted ? -EINTR : err ? err : lease_error);
	} else if (op->late && !write->page) {
		kr_op_reply_err(op, -ETIMEDOUT);
	} else if (verdict == SET_ID) {
		clear_set_id(write_op);
	} else if (verdict == GATED) {
		wait_at_gate(write_op);
	} else if (verdict == STALE) {
		kr_file_refresh(file);
		kr_file_op_wait(&write_op->file_op, kinds_of(write));
	} else if ((err = kr_flusher_hopeless(mount->flusher, file)) != 0) {
		kr_op_reply_err(op, why_full(mount->journal, err));
	} else {
		kr_flusher_need_space(mount->flusher);
		kr_files_wait_space(mount->files, &op->waiter);
		kr_op_waits_for(op, KR_WAIT_SPACE);
	}
}

static bool by_the_unprivileged(fuse_req_t req)
{
	return fuse_req_ctx(req)->uid != 0;
}

void kr_op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct kr_handle *handle = kr_handle_of(fi);
	struct write write = {.file = handle->file,
		.data = data,
		.size = size,
		.offset = (uint64_t)offset,
		.append = (fi->flags & O_APPEND) && !fi->writepage,
		.page = fi->writepage,
		.handle = handle,
		.sync = fi->writepage ? 0 : fi->flags & (O_SYNC | O_DSYNC),
		.clear_suid = !fi->writepage && by_the_unprivileged(req),
		.process = fi->writepage || atomic_load(&handle->relaxed) ? 0 : fi->lock_owner};
	struct write_op *op;
	int err = KR_FAULT("write.before");
	enum verdict verdict;

	if (handle->batch_file) {
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
	op->file_op.op.fini = fini_write;
	memcpy(op->data, data, size);
	op->write = write;
	op->write.data = op->data;
	op->write.waited = true;
	if (write.clear_suid)
		kr_op_keep_cred(&op->file_op.op, &op->cred);
	kr_op_post(&op->file_op.op);
}
