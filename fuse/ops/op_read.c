/* READ.  A libfuse worker serves bytes that lie on this node under a READ lease.  Other reads wait in the loop: for the
 * lease, for attributes, for blocks.  A read that has entered the lease stays inside until it is served, so a recall
 * cannot starve it.
 *
 * A program stores into a page that the kernel has without any request.  So if programs may have mapped a file for
 * storing (file->pages.mappable), filling its pages needs READ and WRITE (lease_state.h).  A read(2) past the pages
 * does not.  The kernel tells the two apart: a read past the pages carries the lock owner.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "fuse/base/counters.h"
#include "fuse/base/notify.h"
#include "fuse/ops/batch.h"
#include "fuse/file/file_read.h"
#include "fuse/ops/op_file.h"
#include "fuse/readcache/stage.h"
#include "fuse/writeback/flush.h"

enum { PAGE = 4096, PAGE_MASK = PAGE - 1, IN_LOOP_MAX = 64 * 1024 };

struct read_op {
	struct kr_file_op file_op;
	const struct kr_handle *handle;
	uint64_t number;
	uint32_t notified; /* kr_notify_count when it came */
	struct kr_parked_io parked;
	bool entered;
	uint8_t kinds; /* entered */
	bool working;  /* in libuv's pool */
	bool missed;   /* it has waited for blocks */
	uint32_t epoch;
	struct kr_read_plan plan;
	void *buffer;
	int err;
	uv_work_t work;
};

static bool is_page_aligned(uint64_t offset, size_t size)
{
	return ((offset | size) & PAGE_MASK) == 0;
}

/* The lease kinds that a read needs.  PAGE: the read fills the kernel's pages.  [lock] held. */
static uint8_t kinds_of(const struct kr_file *file, bool page)
{
	return page && file->pages.mappable ? KR_LEASE_ALL : KR_LEASE_READ;
}

/* A read that fills the kernel's pages has entered KINDS.  [lock] held. */
static void note_pages(struct kr_file *file, uint8_t kinds)
{
	if (kinds & KR_LEASE_WRITE)
		kr_lease_state_stored(&file->holder);
	else
		kr_lease_state_cached(&file->holder);
}

/* Leaves the lease, and wakes ops that wait for that.  [lock] held. */
static void leave(struct kr_file *file, uint8_t kinds, uint32_t epoch)
{
	kr_lease_state_leave(&file->holder, kinds, epoch);
	if (kinds & KR_LEASE_WRITE)
		file->pages.given_ns = kr_clock_ns();
	/* The session was lost meanwhile, and the kernel's pages with it: the pages of this read came too late. */
	if (epoch != file->holder.epoch) {
		note_pages(file, kinds);
		kr_lease_state_distrust(&file->holder);
	}
	if (file->holder.recalled | file->holder.leaving | file->holder.suspect)
		kr_file_step(file);
}

/* Whether bytes read under the lease of EPOCH may still fill pages. */
static bool still_held(struct kr_file *file, uint32_t epoch)
{
	KR_SCOPED_LOCK(&file->lock);
	return epoch == file->holder.epoch;
}

/* A short read shows where the file ends.  If the read fills pages, the kernel takes that as the size. */
static void note_end(const struct kr_file *file, uint64_t number, uint64_t offset, size_t size, size_t length)
{
	if (length < size && is_page_aligned(offset, size))
		kr_inode_size_seen(file->mount->inodes, number, offset + length);
}

/* Counts a read that is answered with LENGTH bytes. */
static void count_read(const struct kr_file *file, size_t length, bool missed)
{
	kr_count(file->mount->counters, KR_COUNT_READ_BYTES, length);
	kr_count(file->mount->counters, missed ? KR_COUNT_CACHE_MISSES : KR_COUNT_CACHE_HITS, 1);
}

/* --- in a worker ------------------------------------------------------------------------------ */

/* Whether the range can be read without waiting; then the read has entered RET_KINDS and made PLAN. */
static bool begin_fast(struct kr_file *file, uint64_t offset, size_t size, bool page, struct kr_read_plan *plan,
	uint8_t *ret_kinds, uint32_t *ret_epoch)
{
	KR_SCOPED_LOCK(&file->lock);
	uint8_t kinds = kinds_of(file, page);

	if (kr_mount_fenced(file->mount) || file->stale || !kr_lease_state_enter(&file->holder, kinds))
		return false;
	*ret_kinds = kinds;
	*ret_epoch = file->holder.epoch;
	if (page)
		note_pages(file, kinds);
	if (kr_read_plan_init(plan, file, offset, size)) {
		leave(file, kinds, *ret_epoch);
		return false;
	}
	return true;
}

/* Not for the kernel's pages: all handles of the file rely on those. */
static bool read_relaxed(fuse_req_t req, const struct kr_handle *handle, uint64_t offset, size_t size, bool page)
{
	void *buffer;
	bool served;

	if (page || !atomic_load(&handle->relaxed))
		return false;
	if (atomic_load_explicit(&handle->bursts, memory_order_relaxed)) {
		pthread_mutex_lock(&handle->file->lock);
		kr_flush_burst(handle->file);
		pthread_mutex_unlock(&handle->file->lock);
	}
	buffer = malloc(KR_MAX(size, (size_t)1));
	served = buffer && kr_read_own(handle->file, offset, size, buffer) == 0;
	if (served) {
		count_read(handle->file, size, false);
		fuse_reply_buf(req, buffer, size);
	}
	free(buffer);
	return served;
}

static bool read_fast(fuse_req_t req, uint64_t number, struct kr_file *file, uint64_t offset, size_t size, bool page)
{
	struct kr_read_plan plan;
	uint32_t epoch;
	uint8_t kinds;
	void *buffer;
	bool served;

	if (!begin_fast(file, offset, size, page, &plan, &kinds, &epoch))
		return false;
	(void)KR_FAULT("read.fast");
	buffer = malloc(plan.length ? plan.length : 1);
	served = buffer && kr_read_plan_fill(&plan, buffer) == 0 && still_held(file, epoch);
	if (plan.stage)
		kr_stage_hint(plan.stage, offset, size);
	if (served) {
		note_end(file, number, offset, size, plan.length);
		count_read(file, plan.length, false);
		fuse_reply_buf(req, buffer, plan.length);
	}
	kr_read_plan_fini(&plan);
	free(buffer);
	pthread_mutex_lock(&file->lock);
	leave(file, kinds, epoch);
	pthread_mutex_unlock(&file->lock);
	return served;
}

/* --- in the loop ------------------------------------------------------------------------------ */

static void fini_read(struct kr_op *op)
{
	struct read_op *read = KR_CONTAINER_OF(op, struct read_op, file_op.op);
	struct kr_file *file = read->file_op.file;

	kr_list_remove(&read->parked.link);
	if (read->entered) {
		pthread_mutex_lock(&file->lock);
		leave(file, read->kinds, read->epoch);
		pthread_mutex_unlock(&file->lock);
	}
	free(read->buffer);
	kr_file_op_fini(op);
}

/* Whether the op has entered the lease and made its plan. */
static bool enter(struct read_op *read)
{
	struct kr_file *file = read->file_op.file;
	struct kr_lease_state *holder = &file->holder;

	KR_SCOPED_LOCK(&file->lock);
	if (read->entered && read->epoch == holder->epoch)
		return true;
	read->entered = false;
	read->kinds = kinds_of(file, read->parked.page);
	/* A `through` read enters also while the node is fenced, because pages are dropped then.  The server's patience
	 * is longer than the dropping takes. */
	if ((kr_mount_fenced(file->mount) || !kr_lease_state_enter(holder, read->kinds)) &&
		!(read->parked.through && kr_lease_state_enter_through(holder, read->kinds)))
		return false;
	read->entered = true;
	read->epoch = holder->epoch;
	if (read->parked.page)
		note_pages(file, read->kinds);
	return true;
}

/* -EAGAIN: the node must fetch attributes first. */
static int make_plan(struct read_op *read)
{
	struct kr_file *file = read->file_op.file;

	KR_SCOPED_LOCK(&file->lock);
	if (file->stale)
		return -EAGAIN;
	return kr_read_plan_init(&read->plan, file, read->parked.offset, read->parked.length);
}

/* Whether the kernel would show zeros behind the file's end: it has asked for pages behind that end, and does not
 * believe the end that the answer shows, because it got an invalidation after the question (inode_table.h).  It knows a
 * size from before another node truncated the file, or from before the server refused what another node had written. */
static bool would_show_zeros(const struct read_op *read)
{
	return read->parked.page && read->plan.length + PAGE <= read->parked.length &&
		kr_notify_count(read->number) != read->notified;
}

static void answer(struct read_op *read)
{
	struct kr_op *op = &read->file_op.op;

	if (would_show_zeros(read)) { /* the kernel, or else the program, tries again, and then the answer counts */
		kr_op_reply_err(op, -EINTR);
		return;
	}
	(void)KR_FAULT("read.answer");
	if (op->waited_ns[KR_WAIT_SERVER] && kr_stage_pulls_from_node(read->file_op.file->stage)) {
		op->waited_ns[KR_WAIT_NODE] = op->waited_ns[KR_WAIT_SERVER];
		op->waited_ns[KR_WAIT_SERVER] = 0;
	}
	note_end(read->file_op.file, read->number, read->parked.offset, read->parked.length, read->plan.length);
	count_read(read->file_op.file, read->plan.length, read->missed);
	fuse_reply_buf(kr_op_finish(op), read->buffer, read->plan.length);
	kr_op_free(op);
}

static void fill(uv_work_t *work)
{
	struct read_op *read = KR_CONTAINER_OF(work, struct read_op, work);

	free(read->buffer);
	read->buffer = malloc(read->plan.length ? read->plan.length : 1);
	read->err = read->buffer ? kr_read_plan_fill(&read->plan, read->buffer) : -ENOMEM;
}

static void filled(uv_work_t *work, int status)
{
	struct read_op *read = KR_CONTAINER_OF(work, struct read_op, work);
	struct kr_op *op = &read->file_op.op;

	(void)status;
	read->working = false;
	kr_read_plan_fini(&read->plan);
	if (read->err == 0 && !still_held(read->file_op.file, read->epoch))
		read->err = -ESTALE;
	if (read->err == 0) {
		answer(read);
	} else if (read->err == -ENODATA || read->err == -ESTALE) {
		kr_file_op_wait(&read->file_op, 0);
		kr_file_step(read->file_op.file);
	} else {
		kr_op_reply_err(op, read->err);
	}
}

/* 1: the plan's bytes are here; 0: wait; -errno. */
static int bring(struct read_op *read)
{
	struct kr_stage *stage;

	if (!kr_read_plan_needs_stage(&read->plan))
		return 1;
	stage = kr_file_stage(read->file_op.file);
	if (!stage)
		return -ENOMEM;
	read->plan.stage = stage;
	kr_stage_hint(stage, read->parked.offset, read->parked.length);
	return kr_read_plan_want(&read->plan, stage);
}

static void wait_at_gate(struct read_op *read)
{
	struct kr_file *file = read->file_op.file;

	if (!kr_link_linked(&read->parked.link))
		kr_list_append(&file->pages.parked, &read->parked.link);
	kr_file_op_wait(&read->file_op, read->kinds);
}

static void step_read(struct kr_op *op)
{
	struct read_op *read = KR_CONTAINER_OF(op, struct read_op, file_op.op);
	struct kr_file *file = read->file_op.file;
	int got;

	if (read->working)
		return;
	if (kr_op_given_up(op) || kr_file_lease_error(file)) {
		kr_op_reply_err(op, kr_op_given_up(op) ? kr_op_given_up(op) : kr_file_lease_error(file));
		return;
	}
	if (atomic_load(&read->handle->lost_lock)) {
		kr_op_reply_err(op, -EIO);
		return;
	}
	if (!enter(read)) {
		wait_at_gate(read);
		return;
	}
	kr_list_remove(&read->parked.link);
	got = make_plan(read);
	if (got == -EAGAIN) {
		kr_file_refresh(file);
		kr_file_op_wait(&read->file_op, 0);
		kr_op_waits_for(op, KR_WAIT_REQUEST);
		return;
	}
	if (got == 0)
		got = bring(read);
	if (got == 1) {
		read->working = true;
		if (read->plan.length > IN_LOOP_MAX && uv_queue_work(op->mount->loop, &read->work, fill, filled) == 0)
			return;
		fill(&read->work);
		filled(&read->work, 0);
		return;
	}
	kr_read_plan_fini(&read->plan);
	read->missed |= got == 0;
	if (got < 0) {
		kr_op_reply_err(op, got);
		return;
	}
	kr_file_op_wait(&read->file_op, 0);
	/* The upstream may be known only when blocks come: see answer(). */
	kr_op_waits_for(op, KR_WAIT_SERVER);
}

void kr_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct kr_handle *handle = kr_handle_of(fi);
	bool page = fi->lock_owner == 0;
	struct read_op *read;

	if (handle->batch_file) {
		kr_batch_read(req, handle, size, (uint64_t)offset);
		return;
	}
	if (atomic_load_explicit(&handle->lost_lock, memory_order_relaxed)) {
		fuse_reply_err(req, EIO);
		return;
	}
	if (read_relaxed(req, handle, (uint64_t)offset, size, page) ||
		read_fast(req, ino, handle->file, (uint64_t)offset, size, page))
		return;
	read = kr_file_op_new(sizeof(*read), req, "read", handle->file, step_read);
	if (!read)
		return;
	read->file_op.op.fini = fini_read;
	read->handle = handle;
	read->number = ino;
	read->notified = kr_notify_count(ino);
	read->parked.offset = (uint64_t)offset;
	read->parked.length = size;
	read->parked.page = page;
	kr_op_post(&read->file_op.op);
}
