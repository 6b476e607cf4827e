/* See recover.h. */
#include "fuse/writeback/recover.h"

#include <errno.h>
#include <inttypes.h>

#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"

/* The file may be there already only in tests; normally nothing has been served yet. */
static int adopt(struct kr_mount *mount, struct kr_recovered_file *recovered)
{
	struct kr_file *file = kr_file_get_or_new(mount, &recovered->file->fid);
	const bool uncovered = recovered->uncovered.up_to != 0;
	struct kr_link *link;

	if (!file)
		return -ENOMEM;
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
	while ((link = kr_list_pop(&recovered->applied)))
		kr_list_append(&file->flush->applied, link);
	kr_file_redirtied(file, recovered->mtime, 0);
	kr_flush_settle(file);
	if (uncovered)
		kr_unjudged_recovered(file, &recovered->uncovered);
	kr_file_put(file);
	return 0;
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

int kr_recover(struct kr_mount *mount, struct kr_recovery *recovery)
{
	struct kr_flusher *flusher = mount->flusher;
	struct kr_link *link;

	tell(recovery);
	for (link = recovery->files.head.next; link != &recovery->files.head; link = link->next) {
		int err = adopt(mount, KR_LIST_ENTRY(link, struct kr_recovered_file, link));

		if (err)
			return err;
	}
	if (recovery->uncovered)
		kr_uncovered_rewrite(flusher->uncovered);
	while ((link = kr_list_pop(&recovery->damage))) {
		kr_list_append(&flusher->damage, link);
		flusher->damages++;
	}
	return 0;
}
