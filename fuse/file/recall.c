/* The server's RECALL and QUERY, and dropping the kernel's pages before READ goes.  Loop thread.
 *
 * A page that a parked read waits for is locked, and an invalidation waits for that lock.  So an invalidation leaves
 * out the ranges of parked reads, whose pages are empty.  If the invalidation has not returned after
 * KR_FILE_THROUGH_MS, the node serves the reads parked by then under the lease that is going.  One more pass follows.
 * Passes end, because each leaves out what is parked when it begins (KR_NOTIFY_RANGES).
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "fuse/file/shrink_notice.h"
#include "fuse/file/file_priv.h"
#include "fuse/base/counters.h"
#include "fuse/session/fence.h"
#include "fuse/session/session.h"
#include "fuse/base/lent.h"
#include "fuse/base/notify.h"
#include "fuse/file/handle.h"
#include "fuse/names/inode_table.h"
#include "fuse/readcache/stage.h"
#include "fuse/session/rpc.h"

struct recall {
	struct kr_link link; /* kr_file_lease.recalls */
	struct kr_down down;
};

enum { LATE_READS_MS = 3000 };

/* One invalidation of a file's pages. */
struct kr_file_drop {
	struct kr_notify_job job;
	struct kr_link link;  /* kr_files.drops */
	struct kr_file *file; /* a reference */
	struct kr_task done_task;
	uint64_t started_ns;
	uint64_t parked_ns; /* reads wait although the server may have lost patience; since when */
	int err;
};

/* --- RECALL ----------------------------------------------------------------------------------- */

static void on_recall(struct kr_mount *mount, const struct kr_down *down, const void *message, struct kr_buf *data)
{
	const struct kr_recall_request *request = message;
	struct kr_file *file = kr_file_find(mount, &request->file);
	struct recall *recall;

	(void)data;
	kr_count(mount->counters, KR_COUNT_RECALLS, 1);
	if (!request->kinds) {
		kr_shrink_notices_heard(mount->files, &request->file, down);
		kr_file_put(file);
		return;
	}
	if (!file) {
		kr_rpc_answer(mount->rpc, down, 0, NULL);
		return;
	}
	recall = kr_xcalloc(1, sizeof(*recall));
	recall->down = *down;
	if ((request->kinds & KR_RECALL_DISCARD) && !file->open.handles && !file->open.opening)
		file->mount->files->flush->discard(file);
	if (request->kinds & KR_RECALL_GONE) {
		file->open.nameless = true;
		kr_stage_abandon(file->stage);
	}
	kr_list_append(&file->lease.recalls, &recall->link);
	pthread_mutex_lock(&file->lock);
	kr_lease_state_recalled(&file->holder, request->kinds);
	pthread_mutex_unlock(&file->lock);
	kr_file_run(file);
	kr_file_put(file);
}

void kr_recall_answer(struct kr_file *file)
{
	struct recall *recall;

	(void)KR_FAULT("recall.answer");
	while ((recall = KR_LIST_POP(&file->lease.recalls, struct recall, link))) {
		kr_rpc_answer(file->mount->rpc, &recall->down, 0, NULL);
		free(recall);
	}
}

void kr_recall_forget(struct kr_file *file)
{
	struct recall *recall;

	while ((recall = KR_LIST_POP(&file->lease.recalls, struct recall, link)))
		free(recall);
}

/* --- QUERY ------------------------------------------------------------------------------------ */

static void on_query(struct kr_mount *mount, const struct kr_down *down, const void *message, struct kr_buf *data)
{
	const struct kr_query_request *request = message;
	struct kr_file *file = kr_file_find(mount, &request->file);
	struct kr_query_reply reply = {0};

	(void)data;
	if (file) {
		pthread_mutex_lock(&file->lock);
		if (!kr_extent_map_empty(&file->dirty))
			reply = (struct kr_query_reply){
				.dirty = 1, .end = kr_extent_map_end(&file->dirty), .mtime = file->mtime};
		pthread_mutex_unlock(&file->lock);
		kr_file_put(file);
	}
	kr_rpc_answer(mount->rpc, down, 0, &reply);
}

/* --- dropping pages --------------------------------------------------------------------------- */

static int compare_ranges(const void *a, const void *b)
{
	const struct kr_range *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The file but for the ranges of the page reads that are parked now. */
static void choose_ranges(struct kr_file *file, struct kr_notify_job *job)
{
	struct kr_range parked[KR_NOTIFY_RANGES - 1];
	struct kr_parked_io *read;
	uint64_t position = 0;
	uint32_t count = 0;

	KR_LIST_FOR_EACH(read, &file->pages.parked, link) {
		if (read->page && read->length && count < KR_ARRAY_SIZE(parked))
			parked[count++] = (struct kr_range){.offset = read->offset, .length = read->length};
	}
	qsort(parked, count, sizeof(*parked), compare_ranges);
	job->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (parked[i].offset > position)
			job->ranges[job->count++] =
				(struct kr_range){.offset = position, .length = parked[i].offset - position};
		position = KR_MAX(position, parked[i].offset + parked[i].length);
	}
	job->ranges[job->count++] = (struct kr_range){.offset = position};
}

static void drop_ended(struct kr_task *task)
{
	struct kr_file_drop *drop = KR_CONTAINER_OF(task, struct kr_file_drop, done_task);
	struct kr_file *file = drop->file;

	if (drop->err)
		kr_log_warn("cannot invalidate the kernel's pages of a file: error %d", -drop->err);
	kr_list_remove(&drop->link);
	file->pages.drop = NULL;
	free(drop);
	pthread_mutex_lock(&file->lock);
	kr_lease_state_dropped(&file->holder);
	file->pages.known_size = 0;
	file->pages.fruitless = !file->pages.written;
	file->pages.written = false;
	pthread_mutex_unlock(&file->lock);
	kr_file_run(file);
	kr_file_put(file);
}

/* kr-notify. */
static void drop_done(struct kr_notify_job *job, int err)
{
	struct kr_file_drop *drop = KR_CONTAINER_OF(job, struct kr_file_drop, job);
	struct kr_inodes *inodes = drop->file->mount->inodes;

	drop->err = err;
	if (kr_inode_truncated(inodes, &drop->file->fid)) /* perhaps, by another node, when our answer allows it */
		kr_inode_await_notifiers(inodes, &drop->file->fid);
	kr_loop_post(drop->file->mount->kr_loop, &drop->done_task);
}

static void let_through(uv_timer_t *timer);

void kr_recall_drop(struct kr_file *file)
{
	struct kr_files *files = file->mount->files;
	struct kr_file_drop *drop = kr_xcalloc(1, sizeof(*drop));

	(void)KR_FAULT("recall.drop");
	drop->file = kr_file_get(file);
	drop->done_task.fn = drop_ended;
	drop->started_ns = kr_clock_ns();
	drop->job.nodeid = kr_inode_find(file->mount->inodes, &file->fid);
	drop->job.done = drop_done;
	choose_ranges(file, &drop->job);
	file->pages.drop = drop;
	if (kr_list_empty(&files->drops))
		uv_timer_start(&files->drop_timer, let_through, KR_FILE_THROUGH_MS, KR_FILE_THROUGH_MS);
	kr_list_append(&files->drops, &drop->link);
	kr_notify(file->mount->notifier, &drop->job);
}

/* A borrower that was cut off (fuse/base/lent.h) has dropped its pages by itself, and says so as soon as it hears of
 * the drop.  The server may have lost patience, so until then no read may use this node's cache.  A read that waits for
 * longer began before the cut, and the kernel waits for it. */
static bool is_cut_off(struct kr_file_drop *drop, uint64_t now)
{
	const uint64_t patience_ns = kr_fence_after(0, kr_session_facts(drop->file->mount->session)->lease_ms);

	if (!kr_lent() || now - drop->started_ns < patience_ns || kr_list_empty(&drop->file->pages.parked))
		return false;
	if (!drop->parked_ns)
		drop->parked_ns = now;
	return now - drop->parked_ns < LATE_READS_MS * KR_NS_PER_MS;
}

static void let_through(uv_timer_t *timer)
{
	struct kr_files *files = timer->data;
	struct kr_file_drop *drop;
	uint64_t now = kr_clock_ns();

	if (kr_list_empty(&files->drops))
		uv_timer_stop(timer);
	KR_LIST_FOR_EACH(drop, &files->drops, link) {
		struct kr_parked_io *read;

		if (now - drop->started_ns < KR_FILE_THROUGH_MS * KR_NS_PER_MS || is_cut_off(drop, now))
			continue;
		KR_LIST_FOR_EACH(read, &drop->file->pages.parked, link)
			read->through = true;
		if (!kr_list_empty(&drop->file->pages.parked)) {
			(void)KR_FAULT("recall.through");
			kr_file_step(drop->file);
		}
	}
}

/* --- pages that came a moment ago ------------------------------------------------------------- */

static void lingered(uv_timer_t *timer)
{
	struct kr_files *files = timer->data;
	struct kr_file *file;

	while ((file = KR_LIST_POP(&files->lingering, struct kr_file, pages.lingering))) {
		kr_file_step(file);
		kr_file_put(file);
	}
}

void kr_recall_linger(struct kr_file *file)
{
	struct kr_files *files = file->mount->files;

	if (kr_link_linked(&file->pages.lingering))
		return;
	if (kr_list_empty(&files->lingering))
		uv_timer_start(&files->linger_timer, lingered, 1, 0);
	kr_list_append(&files->lingering, &file->pages.lingering);
	kr_file_get(file);
}

void kr_recall_start(struct kr_files *files)
{
	uv_timer_init(files->mount->loop, &files->linger_timer);
	files->linger_timer.data = files;
	uv_timer_init(files->mount->loop, &files->drop_timer);
	files->drop_timer.data = files;
	kr_shrink_notices_start(files);
	kr_rpc_on(files->mount->rpc, KR_MSG_RECALL, on_recall);
	kr_rpc_on(files->mount->rpc, KR_MSG_QUERY, on_query);
}

void kr_recall_stop(struct kr_files *files)
{
	uv_close((uv_handle_t *)&files->drop_timer, NULL);
	uv_close((uv_handle_t *)&files->linger_timer, NULL);
	kr_shrink_notices_stop(files);
}
