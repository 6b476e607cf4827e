/* What the files of this room share. */
#ifndef KR_FUSE_FILE_PRIV_H
#define KR_FUSE_FILE_PRIV_H

#include "fuse/file/file.h"
#include "fuse/file/flush_hooks.h"
#include "fuse/base/mount.h"

struct kr_files {
	struct kr_mount *mount;
	const struct kr_flush_hooks *flush;
	pthread_mutex_t lock; /* guards the table and every file's references */
	struct kr_table table;

	/* All loop thread. */
	struct kr_list idle; /* kr_file_life.idle, the longest idle first */
	uint32_t idle_count;
	struct kr_list space; /* struct kr_waiter: writes that wait for journal space */
	struct kr_task space_task;
	struct kr_list drops; /* struct kr_file_drop, invalidations under way */
	uv_timer_t drop_timer;
	struct kr_list lingering; /* kr_file_pages.lingering, referenced: their pages are about to be dropped */
	uv_timer_t linger_timer;
	struct kr_list notices; /* of shrink_notice.c, as is the next */
	uv_timer_t notice_timer;
	uv_timer_t tick_timer; /* while the mount is fenced, or writes wait for space */
	struct kr_fence *fence;
	bool started, stopped;
	uint64_t generation; /* kr_files_generation */
};

/* file.c: the stage, made if there is none, with nothing in it.  False: out of memory. */
bool kr_file_make_stage(struct kr_file *file);
/* lease.c: does what the lease state wants, until it wants nothing more.  Loop thread, lock not held. */
void kr_lease_act(struct kr_file *file);
/* lease.c: tells the lease state what became of flushes.  Loop thread, lock not held. */
void kr_lease_note_flush(struct kr_file *file);
/* recall.c: KR_LEASE_STATE_DROP and KR_LEASE_STATE_ANSWER.  Loop thread, lock not held. */
void kr_recall_drop(struct kr_file *file);
/* recall.c: pages that came a moment ago must go: the file is stepped a moment later.  Loop thread. */
void kr_recall_linger(struct kr_file *file);
void kr_recall_answer(struct kr_file *file);
void kr_recall_start(struct kr_files *files);
void kr_recall_stop(struct kr_files *files);
/* The session is lost: its RECALLs will not be answered. */
void kr_recall_forget(struct kr_file *file);

#endif
