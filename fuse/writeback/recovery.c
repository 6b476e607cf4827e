/* Recovery of files: in a new session RECLAIM says what they need, its answer what they keep; at the start of a mount the
 * journal gives them back.  Loop thread. */
#include <errno.h>
#include <inttypes.h>

#include "common/base/log.h"
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

static void collect(struct kr_mount *mount, kr_reclaim_add_fn add, void *add_context)
{
	struct collection collection = {
		.add = add, .context = add_context, .boot_id = kr_session_facts(mount->session)->boot_id};

	kr_journal_set_server(mount->journal, kr_session_facts(mount->session)->instance);
	kr_flusher_session_lost(mount->flusher);
	kr_files_for_each(mount->files, collect_file, &collection);
}

static void reclaimed(struct kr_mount *mount, const struct kr_fid *fid, int err, const struct kr_reclaim_reply *reply)
{
	struct kr_file *file = kr_file_find(mount, fid);

	if (!file)
		return;
	kr_file_reclaimed(file, err, reply);
	kr_flush_reclaimed(file, err, reply);
	kr_file_put(file);
}

static void replay(struct kr_mount *mount)
{
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

const struct kr_session_hooks *kr_recovery_hooks(void)
{
	static const struct kr_session_hooks hooks = {
		.collect = collect, .reclaimed = reclaimed, .replay = replay, .resumed = resumed};

	return &hooks;
}

/* --- what the journal held at the start becomes files again ------------------------------------ */

/* The file may be there already only in tests; normally nothing has been served yet. */
static void adopt(struct kr_mount *mount, struct kr_recovered_file *recovered)
{
	struct kr_file *file = kr_file_get_or_new(mount, &recovered->file->fid);
	const bool uncovered = recovered->uncovered.up_to != 0;

	pthread_mutex_lock(&file->lock);
	file->journal_file = recovered->file;
	recovered->file = NULL;
	kr_extent_map_move(&recovered->dirty, &file->dirty);
	file->written_seq = recovered->max_seq;
	file->clear_suid = recovered->clear_suid;
	file->flush->noticed = !kr_extent_map_empty(&file->dirty);
	file->flush->vouched = recovered->vouched ? kr_session_facts(mount->session)->instance : 0;
	/* What the daemon before us may have had: others must not read past these bytes, nor write under those that
	 * were read here.  Of those that are uncovered it gave its leases back; WRITE is claimed for them all the same,
	 * because they are dirty (kr_lease_state_lost): the server gives it if nobody else has a lease that excludes
	 * it, and they are not sent under it before they are judged. */
	file->lease.reclaiming = uncovered || kr_extent_map_empty(&file->dirty) ? 0 : KR_LEASE_ALL;
	file->flush->dirty_since_ns = 0; /* old: flushed as soon as the session is there */
	pthread_mutex_unlock(&file->lock);
	kr_list_move(&recovered->applied, &file->flush->applied);
	kr_file_redirtied(file, recovered->mtime, 0);
	kr_flush_settle(file);
	if (uncovered)
		kr_unjudged_recovered(file, &recovered->uncovered);
	kr_file_put(file);
}

static void tell(const struct kr_recovery *recovery)
{
	const struct kr_journal_damage *damage;
	uint64_t files = 0;

	for (const struct kr_link *link = recovery->files.head.next; link != &recovery->files.head; link = link->next)
		files++;
	if (files)
		kr_log_info("the journal holds %" PRIu64 " bytes of %" PRIu64 " files for the server", recovery->bytes,
			files);
	if (recovery->unfinished && recovery->power_lost)
		kr_log_warn(
			"%" PRIu64 " records were not on the disk when this machine lost power", recovery->unfinished);
	KR_LIST_FOR_EACH(damage, &recovery->damage, link)
		kr_log(damage->torn_tail ? KR_LOG_WARNING : KR_LOG_ERROR, "journal: %s", damage->text);
}

void kr_recover(struct kr_mount *mount, struct kr_recovery *recovery)
{
	struct kr_flusher *flusher = mount->flusher;
	struct kr_link *link;

	tell(recovery);
	for (link = recovery->files.head.next; link != &recovery->files.head; link = link->next)
		adopt(mount, KR_LIST_ENTRY(link, struct kr_recovered_file, link));
	if (recovery->uncovered)
		kr_uncovered_rewrite(flusher->uncovered);
	while ((link = kr_list_pop(&recovery->damage))) {
		kr_list_append(&flusher->damage, link);
		flusher->damages++;
	}
}
