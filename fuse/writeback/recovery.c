/* Recovery of files: in a new session RECLAIM says what they need, its answer what they keep; at the start of a mount
 * the journal gives them back.  Loop thread. */
#include <errno.h>
#include <inttypes.h>

#include "common/base/log.h"
#include "fuse/file/locks.h"
#include "fuse/names/uncommitted_names.h"
#include "fuse/readcache/stage.h"
#include "fuse/writeback/flush_priv.h"

struct kr_claims kr_flush_claims(struct kr_file *file)
{
	struct kr_claims claims = {0};

	KR_SCOPED_LOCK(&file->lock);
	claims.last = kr_extent_map_max_seq(&file->dirty);
	if (claims.last)
		claims.first = kr_extent_map_min_seq(&file->dirty);
	if (!file->flush->orphaned || file->flush->unjudged)
		claims.resend = kr_extent_map_seq_until(&file->dirty, file->flush->resend);
	return claims;
}

/* The server may have lost bytes that were in flight or applied: the node makes them dirty again. */
static void lose_session(struct kr_file *file, enum kr_flush_reason reason)
{
	(void)reason;
	kr_flush_send_abandon(file);
	kr_flush_forget_unstable(file->flush);
	kr_flush_redirty(file, 0, 0);
	kr_flush_settle(file);
}

/* --- a new session: which files the server's loss of power may have un-created ------------------ */

struct restoration {
	kr_restore_add_fn add;
	void *context;
};

static void add_restore(void *context, const struct kr_restore_request *request)
{
	const struct restoration *restoration = context;

	restoration->add(restoration->context, request);
}

static void restore(struct kr_mount *mount, kr_restore_add_fn add, void *add_context)
{
	struct restoration restoration = {.add = add, .context = add_context};

	kr_uncommitted_names_restore(mount->uncommitted_names, add_restore, &restoration);
}

/* --- ... what is claimed ------------------------------------------------------------------------ */

struct collection {
	kr_reclaim_add_fn add;
	void *context;
};

static void collect_file(struct kr_file *file, void *context)
{
	struct collection *collection = context;
	/* A CLOSE on its way will be sent again. */
	struct kr_reclaim_item item = {.file = file->fid, .opens = file->open.count + file->open.closing};

	item.kinds = kr_file_session_lost(file);
	item.claims = kr_flush_claims(file);
	if (file->flush->uncovered &&
		!kr_session_facts(file->mount->session)->late) /* the server judges them after the grace period */
		item.claims = (struct kr_claims){0};
	else if (file->flush->uncovered)
		item.kinds |= KR_RECLAIM_UNCOVERED;
	pthread_mutex_lock(&file->lock);
	item.since = kr_file_since(file);
	pthread_mutex_unlock(&file->lock);
	/* Some bytes wait, and may have been refused before: the server must know that the file was open for them. */
	if (item.opens || item.kinds || item.claims.last)
		collection->add(collection->context, &item);
}

static void collect(struct kr_mount *mount, kr_reclaim_add_fn add, void *add_context)
{
	struct collection collection = {.add = add, .context = add_context};
	struct kr_flusher *flusher = mount->flusher;

	flusher->recovering = flusher->lost = true;
	kr_flush_for_each(flusher, lose_session, KR_FLUSH_AGE);
	kr_chains_session_lost(mount->chains);
	kr_files_for_each(mount->files, collect_file, &collection);
}

/* --- ... and what is answered ----------------------------------------------------------------- */

/* The server has all up to SEQ on its disk, but for late bytes that came after those with a higher one. */
static void take_durable(struct kr_file *file, uint64_t seq)
{
	pthread_mutex_lock(&file->lock);
	kr_journal_release_until(file->mount->journal, &file->dirty, seq);
	file->flushed_seq = KR_MAX(file->flushed_seq, seq);
	file->clear_suid &= !kr_extent_map_empty(&file->dirty);
	pthread_mutex_unlock(&file->lock);
	kr_file_redirtied(file, 0);
}

void kr_flush_reclaimed(struct kr_file *file, int err, const struct kr_reclaim_reply *reply)
{
	const bool late = kr_session_facts(file->mount->session)->late;

	kr_file_get(file);
	if (!err && reply->durable_seq && !file->flush->moved)
		take_durable(file, reply->durable_seq);
	kr_unjudged_heard(file, err, reply);
	if (!err && reply->conflict)
		kr_late_begin(file, &reply->attr);
	else if (err == -ESTALE) /* the server knows whether that is a conflict, perhaps since an earlier session */
		kr_late_begin(file, NULL);
	else if (err && late && kr_flush_claims(file).last) /* late bytes must not go in when the next flush is due */
		kr_unjudged_begin(file, err);
	if (err == -ESTALE && kr_flush_busy(file) && !file->flush->late) {
		kr_log_warn("file %" PRIu64
			    " is gone at the server; its unflushed bytes wait in the journal to be discarded",
			file->base.ino);
		kr_flush_orphan(file, err);
	}
	kr_flush_settle(file);
	kr_file_put(file);
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

static void step_file(struct kr_file *file, enum kr_flush_reason reason)
{
	(void)reason;
	kr_flush_step(file);
}

static void resumed(struct kr_mount *mount)
{
	struct kr_flusher *flusher = mount->flusher;

	kr_files_resumed(mount->files);
	if (flusher->lost)
		kr_stages_rejoin(mount);
	flusher->recovering = flusher->lost = false;
	kr_flush_watch_calls(flusher);
	kr_flush_for_each(flusher, step_file, KR_FLUSH_AGE);
}

const struct kr_session_hooks *kr_recovery_hooks(void)
{
	static const struct kr_session_hooks hooks = {.restore = restore,
		.collect = collect,
		.reclaimed = reclaimed,
		.reclaim_locks = kr_locks_reclaim,
		.resumed = resumed};

	return &hooks;
}

/* --- what the journal held at the start becomes files again ------------------------------------ */

void kr_recovery_settle_power(struct kr_flusher *flusher)
{
	struct kr_mount *mount = flusher->mount;
	struct kr_flush *flush;

	if (!mount->power_lost)
		return;
	KR_LIST_FOR_EACH(flush, &flusher->busy, busy)
		if (flush->unjudged)
			return;
	KR_LIST_FOR_EACH(flush, &flusher->busy, busy)
		flush->power_lost = false;
	mount->power_lost = false;
	kr_journal_power_settled(mount->journal);
}

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
	file->mtime = recovered->mtime;
	file->clear_suid = recovered->clear_suid;
	file->flush->noticed = !kr_extent_map_empty(&file->dirty);
	/* The leases that the former daemon may have had: other nodes must not read past these bytes, nor write under
	 * bytes that programs read here.  The former daemon gave its leases back if the bytes are uncovered.  The node
	 * claims WRITE for these all the same, because they are dirty (kr_lease_state_lost): the server grants it
	 * unless another node's lease excludes it.  The node sends them only after the server has judged them. */
	file->lease.reclaiming = uncovered || kr_extent_map_empty(&file->dirty) ? 0 : KR_LEASE_ALL;
	file->flush->dirty_since_ns = 0; /* old: flushed as soon as the session is there */
	pthread_mutex_unlock(&file->lock);
	file->flush->resend = recovered->max_seq;
	file->flush->power_lost = mount->power_lost;
	file->flush->unjudged_since = recovered->first_mtime;
	kr_file_redirtied(file, 0);
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
		kr_log_info("the journal holds %" PRIu64 " byte%s of %" PRIu64 " file%s for the server",
			recovery->bytes, KR_S(recovery->bytes), files, KR_S(files));
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
