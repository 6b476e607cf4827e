/* See shrink_notice.h. */
#include "fuse/file/shrink_notice.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "fuse/file/file_priv.h"
#include "fuse/names/inode_table.h"
#include "fuse/base/notify.h"

struct notice {
	struct kr_notify_job job;
	struct kr_link link; /* kr_files.notices */
	struct kr_mount *mount;
	struct kr_fid fid;
	struct kr_down down;
	struct kr_task done_task;
	uint64_t heard_ns;
	int err;
	bool answered;
};

static void answer(struct notice *notice)
{
	if (!notice->answered)
		kr_rpc_answer(notice->mount->rpc, &notice->down, 0, NULL);
	notice->answered = true;
}

static void settled(struct kr_task *task)
{
	struct notice *notice = KR_CONTAINER_OF(task, struct notice, done_task);

	if (notice->err && notice->err != -ENOENT)
		kr_log_warn("cannot invalidate the kernel's pages of a file that another node has truncated: error %d",
			-notice->err);
	if (!notice->mount->files->stopped) /* else there is no protocol any more */
		answer(notice);
	kr_list_remove(&notice->link);
	free(notice);
}

/* In kr-notify.  First wait for answers that are just going out: they were marked as old when the notice came. */
static void settle(struct kr_notify_job *job, int err)
{
	struct notice *notice = KR_CONTAINER_OF(job, struct notice, job);
	struct kr_inodes *inodes = notice->mount->inodes;
	uint64_t number;

	(void)err;
	kr_inode_await_notifiers(inodes, &notice->fid);
	number = kr_inode_find(inodes, &notice->fid);
	if (number)
		notice->err = kr_notify_drop(notice->mount->fuse, number, &(struct kr_range){0});
	kr_loop_post(notice->mount->kr_loop, &notice->done_task);
}

static void look_for_late(uv_timer_t *timer)
{
	struct kr_files *files = timer->data;
	struct notice *notice;
	uint64_t now = kr_clock_ns();

	if (kr_list_empty(&files->notices))
		uv_timer_stop(timer);
	KR_LIST_FOR_EACH(notice, &files->notices, link) {
		if (now - notice->heard_ns >= KR_TRUNCATE_BARRIER_PATIENCE_MS * KR_NS_PER_MS)
			answer(notice);
	}
}

void kr_shrink_notices_heard(struct kr_files *files, const struct kr_fid *fid, const struct kr_down *down)
{
	struct kr_mount *mount = files->mount;
	struct notice *notice;

	(void)KR_FAULT("cut.heard");
	(void)kr_inode_truncated(mount->inodes, fid);
	if (files->stopped || !kr_inode_find(mount->inodes, fid)) {
		kr_rpc_answer(mount->rpc, down, 0, NULL);
		return;
	}
	notice = kr_xcalloc(1, sizeof(*notice));
	*notice = (struct notice){.job.done = settle,
		.mount = mount,
		.fid = *fid,
		.down = *down,
		.done_task.fn = settled,
		.heard_ns = kr_clock_ns()};
	if (kr_list_empty(&files->notices))
		uv_timer_start(&files->notice_timer, look_for_late, KR_TRUNCATE_BARRIER_PATIENCE_MS / 4,
			KR_TRUNCATE_BARRIER_PATIENCE_MS / 4);
	kr_list_append(&files->notices, &notice->link);
	kr_notify(mount->shrink_notifier, &notice->job);
}

void kr_shrink_notices_start(struct kr_files *files)
{
	uv_timer_init(files->mount->loop, &files->notice_timer);
	files->notice_timer.data = files;
}

void kr_shrink_notices_stop(struct kr_files *files)
{
	uv_close((uv_handle_t *)&files->notice_timer, NULL);
}

void kr_shrink_notices_free(struct kr_files *files)
{
	struct notice *notice;

	while ((notice = KR_LIST_POP(&files->notices, struct notice, link)))
		free(notice);
}
