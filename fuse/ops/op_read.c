/* READ.  A libfuse worker serves bytes that lie on this node under a READ lease.  Other reads wait in the loop: for the
 * lease, for attributes, for blocks.  A read that has entered the lease stays inside until it is served, so a recall
 * cannot starve it.
 *
 * A program stores into a page that the kernel has without any request.  So if programs may have mapped a file for
 * storing (file->pages.mappable), filling its pages needs READ and WRITE (lease_state.h).  A read(2) past the pages
 * does not.  The kernel tells the two apart: a read past the pages carries the lock owner.
 *
 * A program that sees in a page that another node has made the file longer may go on to the new pages of its mapping.
 * The kernel asks for no page behind the size that it knows: SIGBUS.  So the kernel learns the size first, and gets the
 * page then.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "fuse/base/counters.h"
#include "fuse/base/notify.h"
#include "fuse/base/shim.h"
#include "fuse/ops/batch.h"
#include "fuse/file/file_read.h"
#include "fuse/ops/op_file.h"
#include "fuse/readcache/stage.h"
#include "fuse/writeback/flush.h"

enum { IN_LOOP_MAX = 64 * 1024 };
/* So often may one read wait for its size while another node goes on making the file longer.  Under load about a third
 * of these waits were seen to be for nothing. */
enum { GROWTHS_MAX = 64 };

struct read_op {
	struct kr_file_op file_op;
	const struct kr_handle *handle;
	uint64_t number;
	uint32_t notified; /* kr_notify_count when it came */
	struct kr_parked_io parked;
	bool entered;
	uint8_t kinds; /* entered */
	bool working;  /* in libuv's pool, or in kr-notify */
	bool missed;   /* it has waited for blocks */
	uint8_t growths;
	uint32_t epoch;
	struct kr_read_plan plan;
	void *buffer;
	int err;
	uv_work_t work;
};

static bool is_page_aligned(uint64_t offset, size_t size)
{
	return ((offset | size) & (kr_kernel_page() - 1)) == 0;
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

static void step_read(struct kr_op *op);

/* --- in a worker ------------------------------------------------------------------------------ */

/* [lock] held, READ entered. */
static uint64_t size_of(const struct kr_file *file)
{
	return KR_MAX(file->base.size, kr_extent_map_end(&file->dirty));
}

/* Whether the file has pages behind END, where the read of a page ends, of which the kernel may not know.  [lock] held,
 * READ entered. */
static bool is_longer_than_known(struct kr_file *file, uint64_t end)
{
	const uint64_t size = size_of(file);

	if (size <= file->pages.known_size)
		return false;
	if (((size - 1) & ~(kr_kernel_page() - 1)) >= end)
		return true;
	file->pages.known_size = size; /* to the page: the kernel asks for none behind the size that it knows */
	return false;
}

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
	if ((page && is_longer_than_known(file, offset + size)) || kr_read_plan_init(plan, file, offset, size)) {
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
	return read->parked.page && read->plan.length + kr_kernel_page() <= read->parked.length &&
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

/* --- the kernel's size ------------------------------------------------------------------------ */

struct growth {
	struct kr_notify_job job;
	struct kr_task task;
	struct read_op *read;
	uint64_t size;
	uint32_t truncations;
	bool told;
};

static void grown(struct kr_task *task)
{
	struct growth *growth = KR_CONTAINER_OF(task, struct growth, task);
	struct read_op *read = growth->read;
	struct kr_file *file = read->file_op.file;

	/* Else its pages have been dropped since, and it may have heard of another size. */
	if (growth->told && kr_inode_truncations(file->mount->inodes, read->number) == growth->truncations) {
		KR_SCOPED_LOCK(&file->lock);
		file->pages.known_size = growth->size;
	}
	read->working = false;
	free(growth);
	step_read(&read->file_op.op);
}

/* kr-notify. */
static void grow(struct kr_notify_job *job, int err)
{
	struct growth *growth = KR_CONTAINER_OF(job, struct growth, job);
	const struct read_op *read = growth->read;
	struct kr_mount *mount = read->file_op.file->mount;

	if (kr_inode_notify_size(mount->inodes, read->number, growth->size, growth->truncations)) {
		err = kr_shim_grow(mount->fuse, read->number, growth->size);
		growth->told = err == 0;
		kr_inode_notified_size(mount->inodes, read->number, growth->size, growth->truncations, growth->told);
	}
	kr_loop_post(mount->kr_loop, &growth->task);
}

/* Whether no drop of pages has to wait for the read if it is parked now: none is under way, and the next one spares so
 * many (choose_ranges of recall.c). */
static bool is_spared(const struct kr_file *file)
{
	const struct kr_parked_io *other;
	unsigned before = 0;

	KR_LIST_FOR_EACH(other, &file->pages.parked, link)
		before++;
	return !file->pages.drop && before < KR_NOTIFY_RANGES - 1;
}

/* Whether the read, which has entered the lease, goes on when the kernel knows the file's size.  It leaves the lease
 * for that, and is parked: kr-notify may wait for a page whose read waits until the lease is recalled. */
static bool grows_first(struct read_op *read)
{
	struct kr_file *file = read->file_op.file;
	struct kr_inodes *inodes = file->mount->inodes;
	uint32_t truncations = kr_inode_truncations(inodes, read->number);
	enum kr_size_reply reply;
	struct growth *growth;
	uint64_t size;

	KR_SCOPED_LOCK(&file->lock);
	size = size_of(file);
	if (!read->parked.page || file->stale || !is_spared(file) || read->growths == GROWTHS_MAX ||
		!is_longer_than_known(file, read->parked.offset + read->parked.length))
		return false;
	reply = kr_inode_reply_size(inodes, read->number, size, &truncations);
	if (reply == KR_SIZE_REPLY_KNOWN)
		file->pages.known_size = size;
	if (reply != KR_SIZE_REPLY_NOTIFY)
		return false;
	if (!kr_link_linked(&read->parked.link))
		kr_list_append(&file->pages.parked, &read->parked.link);
	read->entered = false;
	leave(file, read->kinds, read->epoch);
	read->growths++;
	read->working = true;
	growth = kr_xcalloc(1, sizeof(*growth));
	*growth = (struct growth){
		.job.done = grow, .task.fn = grown, .read = read, .size = size, .truncations = truncations};
	kr_notify(file->mount->notifier, &growth->job);
	return true;
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
	if (grows_first(read))
		return;
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
