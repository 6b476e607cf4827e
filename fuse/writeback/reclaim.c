/* What becomes of files when the session is lost: RECLAIM says what they need, its answer what they keep.  Loop thread.
 */
#include <errno.h>

#include "common/base/log.h"
#include "fuse/file/file_priv.h"
#include "fuse/journal/journal.h"
#include "fuse/file/locks.h"
#include "fuse/session/session.h"
#include "fuse/readcache/stage.h"

struct collection {
	kr_reclaim_add_fn add;
	void *context;
	const uint8_t *boot_id;
};

static void collect_file(struct kr_file *file, void *context)
{
	struct collection *collection = context;
	/* A CLOSE on its way will be sent again. */
	struct kr_reclaim_item item = {.file = file->fid, .opens = file->opens + file->closing};

	kr_recall_forget(file);
	pthread_mutex_lock(&file->lock);
	/* What an earlier recovery that broke off asked for is still ours to ask. */
	file->reclaiming |= kr_lease_state_lost(&file->holder);
	pthread_mutex_unlock(&file->lock);
	file->could_flush = false;
	item.kinds = file->reclaiming;
	kr_flush_claims(file, collection->boot_id, &item.claims);
	if (file->flush.uncovered &&
		!kr_session_facts(file->mount->session)
			 ->late) /* they are judged when everybody has reclaimed what was his */
		item.claims.first = item.claims.last = 0;
	else if (file->flush.uncovered)
		item.kinds |= KR_RECLAIM_UNCOVERED;
	pthread_mutex_lock(&file->lock);
	item.since = kr_file_since(file);
	pthread_mutex_unlock(&file->lock);
	kr_flush_claimed(file, item.since);
	/* Bytes that wait, refused before perhaps: the server shall know that the file was open for them. */
	if (item.opens || item.kinds || item.claims.last || item.claims.replay_last)
		collection->add(collection->context, &item);
}

static void collect(struct kr_mount *mount, bool boot_changed, kr_reclaim_add_fn add, void *add_context)
{
	struct collection collection = {
		.add = add, .context = add_context, .boot_id = kr_session_facts(mount->session)->boot_id};

	(void)boot_changed;
	mount->files->lost = true;
	kr_journal_set_server(mount->journal, kr_session_facts(mount->session)->instance);
	kr_flusher_session_lost(mount->flusher);
	kr_files_for_each(mount->files, collect_file, &collection);
}

static void reclaimed(struct kr_mount *mount, const struct kr_fid *fid, int err, const struct kr_reclaim_reply *reply,
	bool boot_changed)
{
	struct kr_file *file = kr_file_find(mount, fid);
	bool same = false;

	(void)boot_changed;
	if (!file)
		return;
	pthread_mutex_lock(&file->lock);
	file->reclaiming = 0;
	if (err) {
		kr_lease_state_reclaimed(&file->holder, 0, false);
	} else {
		same = reply->attr.version != 0 && reply->attr.version == file->base.version;

		kr_lease_state_reclaimed(&file->holder, reply->kinds, same);
		file->base = reply->attr;
	}
	file->stale = err != 0;
	file->changes++;
	file->changed_ns = kr_clock_ns();
	pthread_mutex_unlock(&file->lock);
	file->gone = err == -ESTALE;
	if (file->gone)
		kr_stage_abandon(file->stage);
	if (!same && file->stage)
		kr_stage_suspend(file->stage); /* blocks without a version go */
	kr_flush_reclaimed(file, err, reply);
	kr_file_put(file);
}

static void replay(struct kr_mount *mount, bool boot_changed)
{
	(void)boot_changed;
	kr_locks_reclaim(mount); /* on the wire before RECLAIM_DONE */
	kr_flusher_replay(mount->flusher);
}

static void step_file(struct kr_file *file, void *context)
{
	(void)context;
	kr_file_step(file);
}

static void resumed(struct kr_mount *mount)
{
	struct kr_files *files = mount->files;

	files->generation++;
	if (files->lost)
		kr_stages_rejoin(mount);
	files->lost = false;
	kr_flusher_resumed(mount->flusher);
	kr_files_for_each(files, step_file, NULL);
	kr_files_space(files);
}

const struct kr_session_hooks *kr_files_session_hooks(void)
{
	static const struct kr_session_hooks hooks = {
		.collect = collect, .reclaimed = reclaimed, .replay = replay, .resumed = resumed};

	return &hooks;
}
