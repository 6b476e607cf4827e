/* The mount's table of files: its start and end, walks over all files, and what wakes them when no event does.
 *
 * Loop thread, but for kr_files_space and the walks.  How a single file is found and kept: file.c.
 */
#include "fuse/file/file.h"

#include <stdlib.h>

#include "fuse/session/fence.h"
#include "fuse/file/shrink_notice.h"
#include "fuse/file/file_priv.h"
#include "fuse/base/waiter.h"
#include "fuse/journal/journal.h"

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
	kr_list_init(&files->cuts);
	files->space_task.fn = space_again;
	*ret_files = files;
	return 0;
}

static bool step_waited_for(struct kr_table_link *link, void *context)
{
	struct kr_file *file = KR_CONTAINER_OF(link, struct kr_file, life.by_fid);

	(void)context;
	if (!kr_list_empty(&file->waiters) && !atomic_exchange(&file->life.stepping, true)) {
		file->life.references++;
		kr_loop_post(file->mount->kr_loop, &file->life.step_task);
	}
	return true;
}

/* What no event tells: that the mount is not fenced any more, that space will never come. */
static void tick(uv_timer_t *timer)
{
	struct kr_files *files = timer->data;

	if (kr_mount_fenced(files->mount))
		return;
	uv_timer_stop(timer);
	pthread_mutex_lock(&files->lock);
	kr_table_for_each(&files->table, step_waited_for, NULL);
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
}

void kr_files_need_tick(struct kr_files *files)
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

static bool destroy_one(struct kr_table_link *link, void *context)
{
	struct kr_files *files = context;
	struct kr_file *file = KR_CONTAINER_OF(link, struct kr_file, life.by_fid);

	kr_table_remove(&files->table, link);
	kr_file_destroy(file);
	return true;
}

void kr_files_free(struct kr_files *files)
{
	if (!files)
		return;
	kr_shrink_notices_free(files);
	kr_table_for_each(&files->table, destroy_one, files);
	kr_table_fini(&files->table);
	pthread_mutex_destroy(&files->lock);
	free(files);
}

struct walk {
	struct kr_file **all;
	size_t count;
};

static bool collect_one(struct kr_table_link *link, void *context)
{
	struct walk *walk = context;
	struct kr_file *file = KR_CONTAINER_OF(link, struct kr_file, life.by_fid);

	file->life.references++;
	walk->all[walk->count++] = file;
	return true;
}

void kr_files_for_each(struct kr_files *files, void (*visit)(struct kr_file *file, void *context), void *context)
{
	struct walk walk = {0};

	pthread_mutex_lock(&files->lock);
	walk.all = kr_xcalloc(files->table.count + 1, sizeof(*walk.all));
	kr_table_for_each(&files->table, collect_one, &walk);
	pthread_mutex_unlock(&files->lock);
	for (size_t i = 0; i < walk.count; i++) {
		visit(walk.all[i], context);
		kr_file_put(walk.all[i]);
	}
	free(walk.all);
}

void kr_files_space(struct kr_files *files)
{
	kr_loop_post(files->mount->kr_loop, &files->space_task);
}

void kr_files_wait_space(struct kr_files *files, struct kr_waiter *waiter)
{
	kr_waiter_wait(waiter, &files->space);
	kr_files_need_tick(files);
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

static bool count_one(struct kr_table_link *link, void *context)
{
	*(uint64_t *)context += KR_CONTAINER_OF(link, struct kr_file, life.by_fid)->open.handles > 0;
	return true;
}

void kr_files_count(struct kr_files *files, uint64_t *ret_files, uint64_t *ret_open)
{
	uint64_t open = 0;

	KR_SCOPED_LOCK(&files->lock);
	kr_table_for_each(&files->table, count_one, &open);
	*ret_files = files->table.count;
	*ret_open = open;
}
