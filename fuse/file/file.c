/* The table of files, their lives and their steps.  See file.h.
 *
 * References are counted under the table's lock, because a lookup may find a file again while its last reference goes.
 * The loop frees the file if no lookup has found it until then.
 */
#include "fuse/file/file.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/rpc/attr_cache.h"
#include "fuse/file/file_priv.h"
#include "fuse/file/handle.h"
#include "fuse/journal/journal.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/session/rpc.h"
#include "fuse/readcache/stage.h"
#include "fuse/session/fence.h"
#include "fuse/file/shrink_notice.h"
#include "fuse/base/waiter.h"

/* --- references ------------------------------------------------------------------------------- */

static void run_task(struct kr_task *task);
static void free_unused(struct kr_task *task);

static struct kr_file *make(struct kr_mount *mount, const struct kr_fid *fid)
{
	struct kr_file *file = kr_xcalloc(1, sizeof(*file));

	file->mount = mount;
	file->fid = *fid;
	file->life.step_task.fn = run_task;
	file->life.free_task.fn = free_unused;
	pthread_mutex_init(&file->lock, NULL);
	kr_lease_state_init(&file->holder);
	kr_extent_map_init(&file->dirty);
	file->changes = 1;
	kr_list_init(&file->waiters);
	kr_list_init(&file->pages.parked);
	kr_list_init(&file->pages.passed);
	kr_list_init(&file->open.list);
	kr_list_init(&file->lease.recalls);
	kr_link_init(&file->life.idle);
	kr_link_init(&file->pages.lingering);
	file->flush = file->mount->files->flush->make(file);
	return file;
}

static struct kr_file *find(struct kr_mount *mount, const struct kr_fid *fid, bool may_make)
{
	struct kr_files *files = mount->files;
	uint64_t hash = kr_fid_hash(fid);
	struct kr_file *file;

	KR_SCOPED_LOCK(&files->lock);
	KR_TABLE_FOR_EACH_OF(file, &files->table, hash, life.by_fid)
		if (kr_fid_equal(&file->fid, fid))
			break;
	if (!file && may_make) {
		file = make(mount, fid);
		kr_table_insert(&files->table, &file->life.by_fid, hash);
	}
	if (file)
		file->life.references++;
	return file;
}

struct kr_file *kr_file_get_or_new(struct kr_mount *mount, const struct kr_fid *fid)
{
	return find(mount, fid, true);
}

struct kr_file *kr_file_find(struct kr_mount *mount, const struct kr_fid *fid)
{
	return find(mount, fid, false);
}

struct kr_file *kr_file_get(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->mount->files->lock);
	file->life.references++;
	return file;
}

void kr_file_put(struct kr_file *file)
{
	if (!file)
		return;
	KR_SCOPED_LOCK(&file->mount->files->lock);
	assert(file->life.references > 0);
	if (--file->life.references == 0)
		kr_loop_post(file->mount->kr_loop, &file->life.free_task);
}

static void destroy(struct kr_file *file)
{
	kr_handles_abandon(file);
	kr_recall_forget(file);
	kr_stage_free(file->stage);
	file->mount->files->flush->free(file);
	kr_extent_map_fini(&file->dirty);
	kr_journal_file_free(file->journal_file);
	pthread_mutex_destroy(&file->lock);
	free(file);
}

static void free_unused(struct kr_task *task)
{
	struct kr_file *file = KR_CONTAINER_OF(task, struct kr_file, life.free_task);
	struct kr_files *files = file->mount->files;

	pthread_mutex_lock(&files->lock);
	if (file->life.references > 0) {
		pthread_mutex_unlock(&files->lock);
		return;
	}
	kr_table_remove(&files->table, &file->life.by_fid);
	pthread_mutex_unlock(&files->lock);
	kr_loop_forget(file->mount->kr_loop, &file->life.free_task);
	destroy(file);
}

/* --- the table of all files -------------------------------------------------------------------- */

enum { TICK_MS = 100 };

static void space_again(struct kr_task *task)
{
	struct kr_files *files = KR_CONTAINER_OF(task, struct kr_files, space_task);

	kr_waiters_wake(&files->space);
}

int kr_files_new(struct kr_mount *mount, const struct kr_flush_hooks *flush, struct kr_files **ret_files)
{
	struct kr_files *files = kr_xcalloc(1, sizeof(*files));

	files->mount = mount;
	files->flush = flush;
	pthread_mutex_init(&files->lock, NULL);
	kr_table_init(&files->table);
	kr_list_init(&files->idle);
	kr_list_init(&files->space);
	kr_list_init(&files->drops);
	kr_list_init(&files->lingering);
	kr_list_init(&files->notices);
	files->space_task.fn = space_again;
	*ret_files = files;
	return 0;
}

/* Looks for changes without an event: the mount is no longer fenced, space will never come. */
static void tick(uv_timer_t *timer)
{
	struct kr_files *files = timer->data;
	struct kr_file *file;

	if (kr_mount_fenced(files->mount))
		return;
	uv_timer_stop(timer);
	pthread_mutex_lock(&files->lock);
	KR_TABLE_FOR_EACH(file, &files->table, life.by_fid) {
		if (!kr_list_empty(&file->waiters) && !atomic_exchange(&file->life.stepping, true)) {
			file->life.references++;
			kr_loop_post(file->mount->kr_loop, &file->life.step_task);
		}
	}
	pthread_mutex_unlock(&files->lock);
	if (!kr_list_empty(&files->space))
		kr_journal_try_again(files->mount->journal);
	kr_waiters_wake(&files->space);
}

static void distrust(struct kr_file *file, void *context)
{
	(void)context;
	pthread_mutex_lock(&file->lock);
	kr_lease_state_distrust(&file->holder);
	pthread_mutex_unlock(&file->lock);
	kr_file_step(file);
}

/* A fenced mount must not go on serving out of the kernel's pages either. */
static void on_fenced(struct kr_mount *mount)
{
	kr_files_for_each(mount->files, distrust, NULL);
	kr_kernel_attrs_invalidate(mount, KR_ATTR_CACHE_ALL, NULL);
}

/* While the mount is fenced, or writes wait for space, files are stepped now and then. Loop thread. */
static void need_tick(struct kr_files *files)
{
	if (files->started && !files->stopped && !uv_is_active((uv_handle_t *)&files->tick_timer))
		uv_timer_start(&files->tick_timer, tick, TICK_MS, TICK_MS);
}

int kr_files_start(struct kr_files *files)
{
	uv_timer_init(files->mount->loop, &files->tick_timer);
	files->tick_timer.data = files;
	kr_recall_start(files);
	files->started = true;
	return kr_fence_start(files->mount, on_fenced, &files->fence);
}

void kr_files_stop(struct kr_files *files)
{
	if (!files->started || files->stopped)
		return;
	files->stopped = true;
	kr_loop_forget(files->mount->kr_loop, &files->space_task);
	uv_close((uv_handle_t *)&files->tick_timer, NULL);
	kr_fence_stop(files->fence);
	kr_recall_stop(files);
}

void kr_files_free(struct kr_files *files)
{
	struct kr_file *file;

	if (!files)
		return;
	kr_shrink_notices_free(files);
	KR_TABLE_FOR_EACH(file, &files->table, life.by_fid) {
		kr_table_remove(&files->table, &file->life.by_fid);
		destroy(file);
	}
	kr_table_fini(&files->table);
	pthread_mutex_destroy(&files->lock);
	free(files);
}

void kr_files_for_each(struct kr_files *files, void (*visit)(struct kr_file *file, void *context), void *context)
{
	struct kr_file *file, **all;
	size_t count = 0;

	pthread_mutex_lock(&files->lock);
	all = kr_xcalloc(files->table.count + 1, sizeof(struct kr_file *));
	KR_TABLE_FOR_EACH(file, &files->table, life.by_fid) {
		file->life.references++;
		all[count++] = file;
	}
	pthread_mutex_unlock(&files->lock);
	for (size_t i = 0; i < count; i++) {
		visit(all[i], context);
		kr_file_put(all[i]);
	}
	free(all);
}

void kr_files_space(struct kr_files *files)
{
	kr_loop_post(files->mount->kr_loop, &files->space_task);
}

void kr_files_wait_space(struct kr_files *files, struct kr_waiter *waiter)
{
	kr_waiter_wait(waiter, &files->space);
	need_tick(files);
}

static void step_file(struct kr_file *file, void *context)
{
	(void)context;
	kr_file_step(file);
}

void kr_files_resumed(struct kr_files *files)
{
	files->generation++;
	kr_files_for_each(files, step_file, NULL);
	kr_files_space(files);
}

uint64_t kr_files_generation(const struct kr_files *files)
{
	return files->generation;
}

void kr_files_count(struct kr_files *files, uint64_t *ret_files, uint64_t *ret_open)
{
	const struct kr_file *file;
	uint64_t open = 0;

	KR_SCOPED_LOCK(&files->lock);
	KR_TABLE_FOR_EACH(file, &files->table, life.by_fid)
		open += file->open.handles > 0;
	*ret_files = files->table.count;
	*ret_open = open;
}

/* --- how long a file is kept ------------------------------------------------------------------ */

static void leave_lru(struct kr_file *file)
{
	if (kr_link_linked(&file->life.idle)) {
		kr_list_remove(&file->life.idle);
		file->mount->files->idle_count--;
	}
}

/* Gives back what the longest idle file holds, if there are too many. */
static void shrink_lru(struct kr_files *files)
{
	struct kr_file *oldest;

	if (files->idle_count <= KR_FILE_IDLE_MAX)
		return;
	oldest = KR_LIST_ENTRY(files->idle.head.next, struct kr_file, life.idle);
	leave_lru(oldest);
	pthread_mutex_lock(&oldest->lock);
	kr_lease_state_release(&oldest->holder, KR_LEASE_ALL);
	pthread_mutex_unlock(&oldest->lock);
	kr_file_step(oldest);
}

static void enter_lru(struct kr_file *file)
{
	if (!kr_link_linked(&file->life.idle)) {
		kr_list_append(&file->mount->files->idle, &file->life.idle);
		file->mount->files->idle_count++;
		shrink_lru(file->mount->files);
	}
}

static void closed(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_file *file = context;

	(void)err, (void)reply, (void)data;
	file->open.closing = 0;
	kr_file_step(file);
	kr_file_put(file);
}

/* Whether the last open is kept, so that programs can open the file without asking the server (op_open.c).  [lock]
 * held. */
static bool keeps_open(const struct kr_file *file)
{
	return file->open.may_keep && !file->open.nameless && file->base.nlink > 0 &&
		kr_lease_state_has(&file->holder, KR_LEASE_READ);
}

/* Tells the server of handles that are closed here: one CLOSE at a time, for all that have come together.  The last
 * waits until the bytes are flushed, so that a file whose last name is removed meanwhile stays.  When the server tells
 * of that, the CLOSE is sent at once.  If no other node has the file open, the server removes it, and this node
 * discards the bytes. */
static void send_close(struct kr_file *file, bool dirty, bool keep)
{
	uint32_t used = KR_MAX(file->open.handles + file->open.opening, (uint32_t)keep);
	struct kr_close_request request = {.file = file->fid};

	if (file->open.closing || file->open.count <= used || (dirty && used == 0 && !file->open.nameless))
		return;
	request.count = file->open.count - used;
	file->open.count = used;
	file->open.closing = request.count;
	kr_rpc_call(file->mount->rpc, KR_MSG_CLOSE, &request, NULL, 0, KR_RPC_HARD | KR_RPC_LATER, closed,
		kr_file_get(file));
}

/* A node on which no program uses the file keeps no WRITE when all bytes are flushed.  [lock] held. */
static void give_back_clean_write(struct kr_file *file)
{
	if (!file->holder.dirty && (file->holder.held & KR_LEASE_WRITE) && !file->holder.leaving) {
		kr_lease_state_release(&file->holder, KR_LEASE_WRITE);
		kr_file_step(file);
	}
}

/* Whether the node must remember the file although no program uses it.  [lock] held. */
static bool has_reason_to_stay(const struct kr_file *file)
{
	return file->open.count || file->open.closing || file->pages.drop || !kr_lease_state_idle(&file->holder);
}

/* Whether the file is kept for its leases alone: the LRU limits how many files are.  [lock] held. */
static bool belongs_in_lru(const struct kr_file *file)
{
	return file->holder.held && !file->holder.leaving && !file->holder.recalled && !file->holder.returning;
}

/* Decides at the end of a step whether there is a reason to keep the file. */
static void settle(struct kr_file *file)
{
	bool used = file->open.handles || file->open.opening || !kr_list_empty(&file->waiters);
	bool active = used || file->mount->files->flush->is_busy(file);
	bool unflushed, keep_open, stays, in_lru;

	(void)KR_FAULT("file.settle");
	pthread_mutex_lock(&file->lock);
	if (!used)
		give_back_clean_write(file);
	unflushed = file->holder.dirty && !file->holder.refused;
	keep_open = keeps_open(file);
	stays = active || has_reason_to_stay(file);
	in_lru = !active && belongs_in_lru(file);
	pthread_mutex_unlock(&file->lock);
	send_close(file, unflushed, keep_open);
	if (stays && !file->life.resident)
		kr_file_get(file);
	else if (!stays && file->life.resident)
		kr_file_put(file);
	file->life.resident = stays;
	(in_lru ? enter_lru : leave_lru)(file);
}

/* --- steps ------------------------------------------------------------------------------------ */

static void tell_flusher(struct kr_file *file)
{
	bool can, could = file->lease.could_flush, dirty;

	pthread_mutex_lock(&file->lock);
	can = kr_lease_state_may_flush(&file->holder) && !kr_mount_fenced(file->mount);
	dirty = file->holder.dirty;
	pthread_mutex_unlock(&file->lock);
	file->lease.could_flush = can;
	if (can && !could && dirty)
		file->mount->files->flush->step(file);
}

void kr_file_run(struct kr_file *file)
{
	if (file->life.running) {
		kr_file_step(file);
		return;
	}
	kr_file_get(file);
	file->life.running = true;
	kr_lease_note_flush(file);
	kr_lease_act(file);
	file->lease.needs = 0;
	kr_waiters_wake(&file->waiters);
	file->lease.error = 0;
	kr_lease_note_flush(file);
	kr_lease_act(file);
	tell_flusher(file);
	file->life.running = false;
	settle(file);
	kr_file_put(file);
}

static void run_task(struct kr_task *task)
{
	struct kr_file *file = KR_CONTAINER_OF(task, struct kr_file, life.step_task);

	atomic_store(&file->life.stepping, false);
	kr_file_run(file);
	kr_file_put(file);
}

void kr_file_step(struct kr_file *file)
{
	if (atomic_exchange(&file->life.stepping, true))
		return;
	kr_file_get(file);
	kr_loop_post(file->mount->kr_loop, &file->life.step_task);
}

void kr_file_wait(struct kr_file *file, struct kr_file_waiter *waiter)
{
	kr_waiter_wait(&waiter->waiter, &file->waiters);
	if (kr_mount_fenced(file->mount))
		need_tick(file->mount->files);
}

void kr_file_unwait(struct kr_file_waiter *waiter)
{
	kr_list_remove(&waiter->waiter.link);
}

void kr_file_need(struct kr_file *file, uint8_t kinds)
{
	file->lease.needs |= kinds;
	if (!file->life.running) {
		file->life.running = true;
		kr_lease_act(file);
		file->life.running = false;
	}
}

int kr_file_lease_error(const struct kr_file *file)
{
	return file->lease.error;
}

/* --- the attributes, the stage ---------------------------------------------------------------- */

void kr_file_learn(struct kr_file *file, const struct kr_attr *attr)
{
	if (file->base.ino == 0 || kr_time_compare(attr->ctime, file->base.ctime) >= 0)
		file->base = *attr;
}

static void refreshed(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_file *file = context;
	const struct kr_getattr_reply *reply = message;
	bool current = false;

	(void)data;
	file->lease.refreshing = false;
	pthread_mutex_lock(&file->lock);
	if (!err && file->changes == file->lease.refresh_changes) {
		file->base = reply->attr;
		file->stale = false;
		current = true;
	}
	pthread_mutex_unlock(&file->lock);
	/* Blocks without a version can't tell that they are old: all are given up. */
	if (current && file->stage)
		kr_stage_flushed(file->stage, 0, reply->attr.version, reply->attr.size, NULL);
	if (err && err != -ECANCELED)
		file->lease.error = err;
	kr_file_run(file);
	kr_file_put(file);
}

void kr_file_refresh(struct kr_file *file)
{
	struct kr_getattr_request request = {.file = file->fid};

	if (file->lease.refreshing)
		return;
	file->lease.refreshing = true;
	pthread_mutex_lock(&file->lock);
	file->lease.refresh_changes = file->changes;
	pthread_mutex_unlock(&file->lock);
	kr_rpc_call(file->mount->rpc, KR_MSG_GETATTR, &request, NULL, 0, 0, refreshed, kr_file_get(file));
}

static void stage_outdated(struct kr_file *file)
{
	pthread_mutex_lock(&file->lock);
	file->stale = true;
	pthread_mutex_unlock(&file->lock);
	kr_file_step(file);
}

static void stage_patching(struct kr_file *file, bool begins)
{
	if (begins)
		kr_file_get(file);
	else
		kr_file_put(file);
}

bool kr_file_make_stage(struct kr_file *file)
{
	static const struct kr_stage_hooks hooks = {
		.changed = kr_file_step, .outdated = stage_outdated, .patching = stage_patching};
	struct kr_stage *stage;

	if (file->stage)
		return true;
	stage = kr_stage_new(file->mount, file, &file->fid, &hooks);
	pthread_mutex_lock(&file->lock);
	file->stage = stage;
	pthread_mutex_unlock(&file->lock);
	return stage != NULL;
}

struct kr_stage *kr_file_stage(struct kr_file *file)
{
	uint64_t version, size;

	if (!kr_file_make_stage(file))
		return NULL;
	pthread_mutex_lock(&file->lock);
	version = file->base.version;
	size = file->base.size;
	pthread_mutex_unlock(&file->lock);
	kr_stage_set(file->stage, version, size);
	return file->stage;
}

struct kr_time kr_file_now(struct kr_mount *mount)
{
	int64_t ns =
		(int64_t)kr_clock_ns() + atomic_load_explicit(&mount->server_clock_offset_ns, memory_order_relaxed);

	return (struct kr_time){.sec = ns / (int64_t)KR_NS_PER_S, .nsec = (uint32_t)(ns % (int64_t)KR_NS_PER_S)};
}

struct kr_time kr_file_write_time(const struct kr_file *file)
{
	struct kr_time now = kr_file_now(file->mount), ctime = file->base.ctime;

	return kr_time_compare(ctime, now) > 0 && ctime.sec <= now.sec + 1 ? ctime : now;
}
