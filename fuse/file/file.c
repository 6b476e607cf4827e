/* The lives of files and their steps.  See file.h; the table of all: file_table.c.
 *
 * References are counted under the table's lock, because a file may be found again while its last reference goes; it is
 * freed in the loop, when nobody has found it until then.
 */
#include "fuse/file/file.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "fuse/file/file_priv.h"
#include "fuse/file/handle.h"
#include "fuse/journal/journal.h"
#include "fuse/session/rpc.h"
#include "fuse/readcache/stage.h"

static bool match_fid(const struct kr_table_link *link, const void *key)
{
	return kr_fid_equal(&KR_CONTAINER_OF(link, struct kr_file, life.by_fid)->fid, key);
}

static uint64_t hash_fid(const struct kr_fid *fid)
{
	return kr_hash_bytes(fid->bytes, fid->length);
}

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
	uint64_t hash = hash_fid(fid);
	struct kr_table_link *link;
	struct kr_file *file = NULL;

	KR_SCOPED_LOCK(&files->lock);
	link = kr_table_find(&files->table, hash, match_fid, fid);
	if (link) {
		file = KR_CONTAINER_OF(link, struct kr_file, life.by_fid);
	} else if (may_make) {
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

void kr_file_destroy(struct kr_file *file)
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
	kr_file_destroy(file);
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

static void closed(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_file *file = context;

	(void)err;
	(void)reply;
	(void)data;
	file->open.closing = 0;
	kr_file_step(file);
	kr_file_put(file);
}

/* Tells the server of handles that are closed here: one CLOSE at a time, for all that have come together. The last
 * waits until the bytes are flushed, so that an unlinked file stays until then. */
static void send_close(struct kr_file *file, bool dirty)
{
	uint32_t used = file->open.handles + file->open.opening;
	struct kr_close_request request = {.file = file->fid};

	if (file->open.closing || file->open.count <= used || (dirty && used == 0))
		return;
	request.count = file->open.count - used;
	file->open.count = used;
	file->open.closing = request.count;
	kr_rpc_call(file->mount->rpc, KR_MSG_CLOSE, &request, NULL, 0, KR_RPC_HARD, closed, kr_file_get(file));
}

/* Decides at the end of a step whether there is a reason to keep the file. */
static void settle(struct kr_file *file)
{
	bool flushing = file->mount->files->flush->is_busy(file), used = file->open.handles || file->open.opening || !kr_list_empty(&file->waiters);
	bool dirty, idle, only_held, keep;

	(void)KR_FAULT("file.settle");
	pthread_mutex_lock(&file->lock);
	dirty = file->holder.dirty && !file->holder.refused;
	if (!used && !file->holder.dirty && (file->holder.held & KR_LEASE_WRITE) && !file->holder.leaving) {
		kr_lease_state_release(&file->holder, KR_LEASE_WRITE);
		kr_file_step(file);
	}
	idle = kr_lease_state_idle(&file->holder);
	only_held = file->holder.held && !file->holder.leaving && !file->holder.recalled && !file->holder.returning;
	pthread_mutex_unlock(&file->lock);

	send_close(file, dirty);
	keep = used || file->open.count || file->open.closing || flushing || !idle || file->pages.drop;
	if (keep && !file->life.resident) {
		file->life.resident = true;
		kr_file_get(file);
	} else if (!keep && file->life.resident) {
		file->life.resident = false;
		kr_file_put(file);
	}
	if (used || flushing || !only_held) {
		leave_lru(file);
	} else if (!kr_link_linked(&file->life.idle)) {
		kr_list_append(&file->mount->files->idle, &file->life.idle);
		file->mount->files->idle_count++;
		shrink_lru(file->mount->files);
	}
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

/* Each waiter once; those that wait again come to the end of the file's list. */
static void wake_waiters(struct kr_file *file)
{
	struct kr_list woken;
	struct kr_link *link;

	kr_list_init(&woken);
	while ((link = kr_list_pop(&file->waiters)))
		kr_list_append(&woken, link);
	while ((link = kr_list_pop(&woken))) {
		struct kr_file_waiter *waiter = KR_LIST_ENTRY(link, struct kr_file_waiter, link);

		waiter->wake(waiter);
	}
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
	wake_waiters(file);
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
	kr_list_remove(&waiter->link);
	kr_list_append(&file->waiters, &waiter->link);
	if (kr_mount_fenced(file->mount))
		kr_files_need_tick(file->mount->files);
}

void kr_file_unwait(struct kr_file_waiter *waiter)
{
	kr_list_remove(&waiter->link);
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

/* --- what is known of the file ---------------------------------------------------------------- */

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

bool kr_file_make_stage(struct kr_file *file)
{
	static const struct kr_stage_hooks hooks = {.changed = kr_file_step, .outdated = stage_outdated};
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
