/* See shrink_notice.h. */
#include "fuse/file/shrink_notice.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "fuse/file/file_priv.h"
#include "fuse/names/inode_table.h"
#include "fuse/base/notify.h"
#include "fuse/base/shim.h"

struct cut {
	struct kr_notify_job job;
	struct kr_link link; /* kr_files.cuts */
	struct kr_mount *mount;
	struct kr_fid fid;
	struct kr_down down;
	struct kr_task done_task;
	uint64_t heard_ns;
	int err;
	bool answered;
};

static void answer(struct cut *cut)
{
	if (!cut->answered)
		kr_rpc_answer(cut->mount->rpc, &cut->down, 0, NULL);
	cut->answered = true;
}

static void settled(struct kr_task *task)
{
	struct cut *cut = KR_CONTAINER_OF(task, struct cut, done_task);

	if (cut->err && cut->err != -ENOENT)
		kr_log_warn("cannot invalidate the kernel's pages of a file that has been cut: error %d", -cut->err);
	if (!cut->mount->files->stopped) /* else there is no protocol any more */
		answer(cut);
	kr_list_remove(&cut->link);
	free(cut);
}

/* kr-notify. Who is just telling a size comes first: that it tells an old one is known since the cut was heard of. */
static void settle(struct kr_notify_job *job, int err)
{
	struct cut *cut = KR_CONTAINER_OF(job, struct cut, job);
	struct kr_inodes *inodes = cut->mount->inodes;
	uint64_t number;

	(void)err;
	kr_inode_await_notifiers(inodes, &cut->fid);
	number = kr_inode_find(inodes, &cut->fid);
	if (number)
		cut->err = kr_notify_drop(cut->mount->fuse, number, &(struct kr_range){0});
	kr_loop_post(cut->mount->kr_loop, &cut->done_task);
}

static void look_for_late(uv_timer_t *timer)
{
	struct kr_files *files = timer->data;
	struct cut *cut;
	uint64_t now = kr_clock_ns();

	if (kr_list_empty(&files->cuts))
		uv_timer_stop(timer);
	KR_LIST_FOR_EACH(cut, &files->cuts, link) {
		if (now - cut->heard_ns >= KR_TRUNCATE_BARRIER_PATIENCE_MS * KR_NS_PER_MS)
			answer(cut);
	}
}

void kr_shrink_notices_heard(struct kr_files *files, const struct kr_fid *fid, const struct kr_down *down)
{
	struct kr_mount *mount = files->mount;
	struct cut *cut;

	(void)KR_FAULT("cut.heard");
	(void)kr_inode_truncated(mount->inodes, fid);
	if (files->stopped || !kr_inode_find(mount->inodes, fid)) {
		kr_rpc_answer(mount->rpc, down, 0, NULL);
		return;
	}
	cut = kr_xcalloc(1, sizeof(*cut));
	*cut = (struct cut){.job.done = settle,
		.mount = mount,
		.fid = *fid,
		.down = *down,
		.done_task.fn = settled,
		.heard_ns = kr_clock_ns()};
	if (kr_list_empty(&files->cuts))
		uv_timer_start(&files->cut_timer, look_for_late, KR_TRUNCATE_BARRIER_PATIENCE_MS / 4,
			KR_TRUNCATE_BARRIER_PATIENCE_MS / 4);
	kr_list_append(&files->cuts, &cut->link);
	kr_notify(mount->cut_notifier, &cut->job);
}

void kr_shrink_notices_start(struct kr_files *files)
{
	uv_timer_init(files->mount->loop, &files->cut_timer);
	files->cut_timer.data = files;
}

void kr_shrink_notices_stop(struct kr_files *files)
{
	uv_close((uv_handle_t *)&files->cut_timer, NULL);
}

void kr_shrink_notices_free(struct kr_files *files)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&files->cuts)))
		free(KR_LIST_ENTRY(link, struct cut, link));
}
