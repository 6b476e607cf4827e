/* Files of a node with everything around them simulated: rpc, flusher, stage, notifications, loop.  It is linked in
 * place of the layer's own (meson.build).
 */
#ifndef KR_TEST_UNIT_FILE_FIXTURE_H
#define KR_TEST_UNIT_FILE_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "fuse/file/file.h"
#include "fuse/names/inode_table.h"
#include "fuse/base/counters.h"
#include "fuse/base/notify.h"
#include "fuse/file/flush_hooks.h"
#include "fuse/file/handle.h"
#include "fuse/journal/journal.h"
#include "fuse/session/rpc.h"
#include "fuse/readcache/stage.h"

enum { CALLS = 8192 };

struct call {
	uint16_t type;
	union kr_any_msg msg;
	kr_rpc_fn callback;
	void *context;
};
static struct {
	struct call calls[CALLS];
	size_t count;
	kr_down_fn on_recall, on_query;
	struct kr_query_reply query;
	unsigned answers, flushes, flush_steps, suspends, discards;
	struct kr_notify_job *job;
	const struct kr_notifier *notifier; /* that of the job */
	unsigned dropped;
	uint64_t heard_ns;
	struct kr_list tasks;
	bool sending;
	bool awaited;                         /* the directory has to say something before a lease is given back */
	void (*worker)(struct kr_file *file); /* what another thread does after the loop has looked whether it has to */
} fake;
static struct kr_mount mount;
static uv_loop_t loop;

/* --- what surrounds the files ----------------------------------------------------------------- */

void kr_loop_post(struct kr_loop *unused, struct kr_task *task)
{
	(void)unused;
	if (!kr_link_linked(&task->link))
		kr_list_append(&fake.tasks, &task->link);
}
void kr_loop_forget(struct kr_loop *unused, struct kr_task *task)
{
	(void)unused;
	kr_list_remove(&task->link);
}
static inline void turn(void)
{
	struct kr_task *task;

	for (unsigned tasks = 0; (task = KR_LIST_POP(&fake.tasks, struct kr_task, link)); tasks++) {
		assert_true(tasks < 10000); /* else the loop is kept busy */
		task->fn(task);
	}
}
uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	struct call *call = &fake.calls[fake.count++];

	(void)rpc, (void)slices, (void)count, (void)flags;
	assert_true(fake.count <= CALLS);
	*call = (struct call){.type = type, .callback = callback, .context = context};
	switch (type) {
	case KR_MSG_LEASE:
		call->msg.lease_request = *(const struct kr_lease_request *)msg;
		break;
	case KR_MSG_RETURN:
		call->msg.return_request = *(const struct kr_return_request *)msg;
		break;
	case KR_MSG_CLOSE:
		call->msg.close_request = *(const struct kr_close_request *)msg;
		break;
	case KR_MSG_OPEN:
		call->msg.open_request = *(const struct kr_open_request *)msg;
		break;
	default:
		assert_int_equal(type, KR_MSG_GETATTR);
	}
	return fake.count;
}
uint64_t kr_rpc_heard_ns(const struct kr_rpc *rpc)
{
	(void)rpc;
	return fake.heard_ns;
}
void kr_rpc_on(struct kr_rpc *rpc, uint16_t type, kr_down_fn handler)
{
	(void)rpc;
	*(type == KR_MSG_RECALL ? &fake.on_recall : &fake.on_query) = handler;
}
void kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg)
{
	(void)rpc, (void)err;
	fake.answers++;
	if (down->type == KR_MSG_QUERY)
		fake.query = *(const struct kr_query_reply *)msg;
}
uint64_t kr_inode_find(struct kr_inodes *inodes, const struct kr_fid *fid)
{
	(void)inodes, (void)fid;
	return 42;
}
bool kr_inode_truncated(struct kr_inodes *inodes, const struct kr_fid *fid)
{
	(void)inodes, (void)fid;
	return true;
}
void kr_inode_await_notifiers(struct kr_inodes *inodes, const struct kr_fid *fid)
{
	(void)inodes, (void)fid;
}
void kr_notify(struct kr_notifier *notifier, struct kr_notify_job *job)
{
	assert_null(fake.job);
	fake.notifier = notifier;
	fake.job = job;
}
int kr_notify_drop(struct fuse_session *fuse, uint64_t nodeid, const struct kr_range *range)
{
	(void)fuse, (void)nodeid, (void)range;
	fake.dropped++;
	return 0;
}
static struct kr_flush *make_flush(struct kr_file *file)
{
	(void)file;
	return NULL;
}
static void free_flush(struct kr_file *file)
{
	(void)file;
}
static void ask_flush(struct kr_file *file)
{
	(void)file;
	fake.flushes++;
}
static void step_flush(struct kr_file *file)
{
	(void)file;
	fake.flush_steps++;
}
static bool is_busy(struct kr_file *file)
{
	return !kr_extent_map_empty(&file->dirty);
}
static bool is_sending(const struct kr_file *file)
{
	(void)file;
	return fake.sending;
}
static bool keeps_leases(struct kr_file *file)
{
	bool keeps = fake.awaited && (file->holder.recalled | file->holder.leaving);

	if (fake.worker)
		fake.worker(file);
	fake.worker = NULL;
	return keeps;
}
static void uncovered(struct kr_file *file)
{
	(void)file;
}
static void discard(struct kr_file *file)
{
	fake.discards++;
	kr_extent_map_fini(&file->dirty);
	kr_extent_map_init(&file->dirty);
}
static const struct kr_flush_hooks flush_hooks = {
	.make = make_flush,
	.free = free_flush,
	.ask = ask_flush,
	.step = step_flush,
	.is_busy = is_busy,
	.is_sending = is_sending,
	.keeps_leases = keeps_leases,
	.discard = discard,
	.uncovered = uncovered,
};
struct kr_stage *kr_stage_new(
	struct kr_mount *m, struct kr_file *file, const struct kr_fid *fid, const struct kr_stage_hooks *hooks)
{
	(void)m, (void)file, (void)fid, (void)hooks;
	return NULL;
}
void kr_stage_free(struct kr_stage *stage)
{
	assert_null(stage);
}
void kr_stage_set(struct kr_stage *stage, uint64_t version, uint64_t size)
{
	(void)stage, (void)version, (void)size;
}
void kr_stage_suspend(struct kr_stage *stage)
{
	(void)stage;
	fake.suspends++;
}
void kr_stage_flushed(struct kr_stage *stage, uint64_t base_version, uint64_t version, uint64_t size,
	const struct kr_extent_map *sent)
{
	(void)stage, (void)base_version, (void)version, (void)size, (void)sent;
}
void kr_journal_file_free(struct kr_journal_file *file)
{
	assert_null(file);
}
void kr_journal_release(void *journal, const struct kr_extent *piece)
{
	(void)journal, (void)piece;
}
void kr_journal_trim(struct kr_journal *journal, const struct kr_extent_map *map, uint64_t size)
{
	(void)journal, (void)map, (void)size;
}

/* --- helpers ---------------------------------------------------------------------------------- */

static const struct kr_fid fid = {.length = 3, .bytes = "one"};

static inline int setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	memset(&mount, 0, sizeof(mount));
	kr_list_init(&fake.tasks);
	uv_loop_init(&loop);
	mount.loop = &loop;
	mount.counters = kr_counters_new();
	atomic_store(&mount.fence_at_ns, UINT64_MAX);
	assert_int_equal(kr_files_new(&mount, &flush_hooks, &mount.files), 0);
	assert_int_equal(kr_files_start(mount.files), 0);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	kr_files_stop(mount.files);
	turn();
	uv_run(&loop, UV_RUN_DEFAULT); /* until the last handle has closed */
	kr_files_free(mount.files);
	kr_counters_free(mount.counters);
	assert_int_equal(uv_loop_close(&loop), 0);
	return 0;
}

struct waiter {
	struct kr_file_waiter waiter;
	struct kr_file *file;
	uint8_t kinds;
	bool done;
	int err;
};

static inline void look(struct kr_waiter *base)
{
	struct waiter *waiter = KR_CONTAINER_OF(base, struct waiter, waiter.waiter);

	waiter->err = kr_file_lease_error(waiter->file);
	pthread_mutex_lock(&waiter->file->lock);
	waiter->done = waiter->err || kr_lease_state_enter(&waiter->file->holder, waiter->kinds);
	pthread_mutex_unlock(&waiter->file->lock);
	if (waiter->done)
		return;
	kr_file_wait(waiter->file, &waiter->waiter);
	kr_file_need(waiter->file, waiter->kinds);
}

static inline void leave(struct waiter *waiter)
{
	pthread_mutex_lock(&waiter->file->lock);
	kr_lease_state_leave(&waiter->file->holder, waiter->kinds, waiter->file->holder.epoch);
	pthread_mutex_unlock(&waiter->file->lock);
	kr_file_step(waiter->file);
	turn();
}

static inline struct call *last_call(uint16_t type)
{
	for (size_t i = fake.count; i-- > 0;) {
		if (fake.calls[i].type == type)
			return &fake.calls[i];
	}
	return NULL;
}

static inline void reply(struct call *call, int err, const void *message)
{
	assert_non_null(call);
	call->callback(call->context, err, err ? NULL : message, NULL);
	turn();
}

/* As if an op had asked and got these kinds. */
static inline void obtain(struct kr_file *file, uint8_t kinds, const struct kr_attr *attr)
{
	struct waiter waiter = {.waiter.waiter.wake = look, .file = file, .kinds = kinds};
	struct kr_lease_reply message = {.attr = *attr};

	look(&waiter.waiter.waiter);
	reply(last_call(KR_MSG_LEASE), 0, &message);
	assert_true(waiter.done);
	leave(&waiter);
}

static inline void dirty(struct kr_file *file, uint64_t offset, uint64_t length, uint64_t seq)
{
	struct kr_extent extent = {.offset = offset, .length = length, .position = 4096, .seq = seq};

	pthread_mutex_lock(&file->lock);
	assert_int_equal(kr_extent_map_insert(&file->dirty, &extent, NULL, NULL), 0);
	kr_lease_state_dirtied(&file->holder, false);
	file->written_seq = seq;
	file->mtime = (struct kr_time){.sec = 2000};
	pthread_mutex_unlock(&file->lock);
	kr_file_step(file);
	turn();
}

static inline void flushed(struct kr_file *file, uint64_t seq, uint64_t size)
{
	struct kr_flush_reply message = {.attr = {.ino = 1, .size = size, .ctime.sec = 3000}};

	file->flushed_seq = seq;
	kr_file_flushed(file, seq, &message, NULL);
	turn();
}

static inline void recall(uint8_t kinds)
{
	struct kr_recall_request request = {.file = fid, .kinds = kinds};
	struct kr_down down = {.type = KR_MSG_RECALL, .id = 9};

	fake.on_recall(&mount, &down, &request, NULL);
	turn();
}

#endif
