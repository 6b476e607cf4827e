/* What becomes of files when the session is lost: RECLAIM says what they need, its answer what they keep.  Loop thread.
 */
#include "fuse/file/locks.h"
#include "fuse/readcache/stage.h"
#include "fuse/writeback/flush_priv.h"

struct collection {
	kr_reclaim_add_fn add;
	void *context;
	const uint8_t *boot_id;
};

static void collect_file(struct kr_file *file, void *context)
{
	struct collection *collection = context;
	/* A CLOSE on its way will be sent again. */
	struct kr_reclaim_item item = {.file = file->fid, .opens = file->open.count + file->open.closing};

	item.kinds = kr_file_session_lost(file);
	kr_flush_claims(file, collection->boot_id, &item.claims);
	if (file->flush->uncovered &&
		!kr_session_facts(file->mount->session)
			 ->late) /* they are judged when everybody has reclaimed what was his */
		item.claims.first = item.claims.last = 0;
	else if (file->flush->uncovered)
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
	kr_journal_set_server(mount->journal, kr_session_facts(mount->session)->instance);
	kr_flusher_session_lost(mount->flusher);
	kr_files_for_each(mount->files, collect_file, &collection);
}

static void reclaimed(struct kr_mount *mount, const struct kr_fid *fid, int err, const struct kr_reclaim_reply *reply,
	bool boot_changed)
{
	struct kr_file *file = kr_file_find(mount, fid);

	(void)boot_changed;
	if (!file)
		return;
	kr_file_reclaimed(file, err, reply);
	kr_flush_reclaimed(file, err, reply);
	kr_file_put(file);
}

static void replay(struct kr_mount *mount, bool boot_changed)
{
	(void)boot_changed;
	kr_locks_reclaim(mount); /* on the wire before RECLAIM_DONE */
	kr_flusher_replay(mount->flusher);
}

static void resumed(struct kr_mount *mount)
{
	kr_files_resumed(mount->files);
	if (mount->flusher->lost)
		kr_stages_rejoin(mount);
	kr_flusher_resumed(mount->flusher);
}

const struct kr_session_hooks *kr_reclaim_hooks(void)
{
	static const struct kr_session_hooks hooks = {
		.collect = collect, .reclaimed = reclaimed, .replay = replay, .resumed = resumed};

	return &hooks;
}
