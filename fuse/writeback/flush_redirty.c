/* What becomes of applied bytes: durable, or dirty again.
 *
 * Applied bytes become dirty again, under newer ones, when a sync fails at the server, and when the session is lost.
 * After UNSTABLE the bytes of all rounds after the last good one do: else the node would send older bytes over newer
 * ones that were not lost.  The answer of a FLUSH takes all bytes up to its seq out of file->dirty, so no older bytes
 * may become dirty while a FLUSH is in flight.  If UNSTABLE comes meanwhile, the node answers it later, and treats that
 * FLUSH as unanswered: its bytes are newer, and would have to become dirty again, too. STABLE can come before the
 * answer of its FLUSH, if the node sends that FLUSH again on a new connection. Loop thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"

/* An UNSTABLE that has not been answered. */
struct kr_flush_unstable {
	struct kr_link link; /* in flush.unstable */
	struct kr_down down;
	uint64_t after_round;
	int err;
};

void kr_flush_add_applied(struct kr_flush_send *send, uint64_t round)
{
	struct kr_applied *applied = kr_xcalloc(1, sizeof(*applied));

	*applied = (struct kr_applied){
		.up_to = send->seq, .round = round, .mtime = send->mtime, .clear_suid = send->clear_suid};
	kr_extent_map_init(&applied->extents);
	kr_extent_map_move(&send->extents, &applied->extents);
	kr_list_append(&send->file->flush->applied, &applied->link);
	kr_flush_release_applied(send->file, send->stable);
}

static void free_applied(struct kr_applied *applied)
{
	kr_extent_map_fini(&applied->extents);
	kr_list_remove(&applied->link);
	free(applied);
}

/* The oldest first: killed in the middle, a start never sends older bytes over newer ones that it does not send. */
void kr_flush_release_applied(struct kr_file *file, uint64_t up_to_round)
{
	struct kr_applied *applied, *next;

	KR_LIST_FOR_EACH_SAFE(applied, next, &file->flush->applied, link) {
		if (applied->round > up_to_round)
			break;
		kr_journal_release_map(file->mount->journal, &applied->extents);
		free_applied(applied);
	}
}

void kr_flush_forget_applied(struct kr_flush *flush)
{
	struct kr_applied *applied, *next;

	KR_LIST_FOR_EACH_SAFE(applied, next, &flush->applied, link)
		free_applied(applied);
}

void kr_flush_stable(struct kr_file *file, uint64_t round)
{
	const struct kr_flush_unstable *unstable;

	KR_LIST_FOR_EACH(unstable, &file->flush->unstable, link)
		round = KR_MIN(round, unstable->after_round);
	kr_flush_release_applied(file, round);
	if (file->flush->send)
		file->flush->send->stable = KR_MAX(file->flush->send->stable, round);
	kr_flush_settle(file);
	kr_file_step(file);
}

uint64_t kr_flush_oldest(struct kr_file *file)
{
	const struct kr_applied *applied;
	uint64_t oldest = UINT64_MAX;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link)
		oldest = KR_MIN(oldest, kr_extent_map_min_seq(&applied->extents));
	KR_SCOPED_LOCK(&file->lock);
	return KR_MIN(oldest, kr_extent_map_min_seq(&file->dirty));
}

/* --- dirty again ------------------------------------------------------------------------------ */

struct redirty {
	struct kr_file *file;
	int err;
};

static void redirty_piece(void *context, const struct kr_extent *piece)
{
	struct redirty *redirty = context;
	struct kr_file *file = redirty->file;

	if (kr_extent_map_insert_under(&file->dirty, piece, kr_journal_release, file->mount->journal) < 0)
		redirty->err = -ENOMEM;
}

/* Takes the latest round first, and puts each one's bytes under those that are dirty already.  [lock] held. */
static int redirty_entries(struct kr_file *file, uint64_t after_round, bool *ret_any)
{
	struct kr_list *list = &file->flush->applied;
	struct redirty redirty = {.file = file};

	*ret_any = false;
	while (!kr_list_empty(list)) {
		struct kr_applied *last = KR_LIST_ENTRY(list->head.prev, struct kr_applied, link);

		if (last->round <= after_round)
			break;
		if (kr_extent_map_empty(&file->dirty))
			file->mtime = last->mtime;
		file->clear_suid |= last->clear_suid;
		kr_extent_map_for_each(&last->extents, redirty_piece, &redirty);
		free_applied(last);
		*ret_any = true;
	}
	return redirty.err;
}

void kr_flush_redirty(struct kr_file *file, uint64_t after_round, int err)
{
	bool any;
	int failed;

	pthread_mutex_lock(&file->lock);
	failed = redirty_entries(file, after_round, &any);
	file->flushed_seq = 0;
	if (kr_extent_map_seq_until(&file->dirty, file->flush->resend)) { /* others may wait for these */
		kr_flush_plan_want(&file->flush->plan, kr_extent_map_max_seq(&file->dirty), false);
		file->flush->plan.retry_ns = 0;
	}
	if (!kr_extent_map_empty(&file->dirty))
		kr_flush_dirtied(file);
	pthread_mutex_unlock(&file->lock);
	if (failed)
		kr_log_error("out of memory: unflushed bytes of a file wait in the journal for the next mount");
	kr_file_redirtied(file, any ? err : 0);
}

/* --- UNSTABLE --------------------------------------------------------------------------------- */

void kr_flush_unstable(struct kr_file *file, const struct kr_down *down, const struct kr_unstable_request *request)
{
	struct kr_flush_unstable *unstable = kr_xcalloc(1, sizeof(*unstable));

	*unstable = (struct kr_flush_unstable){
		.down = *down, .after_round = request->round, .err = kr_status_to_errno(request->error)};
	kr_list_append(&file->flush->unstable, &unstable->link);
	kr_flush_step(file);
}

void kr_flush_settle_unstable(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	struct kr_flush_unstable *unstable;

	if (!kr_flush_is_unstable(flush) || flush->send)
		return;
	while ((unstable = KR_LIST_POP(&flush->unstable, struct kr_flush_unstable, link))) {
		kr_flush_redirty(file, unstable->after_round, unstable->err);
		kr_rpc_answer(file->mount->rpc, &unstable->down, 0, NULL);
		free(unstable);
	}
	kr_flush_waive(file);
}

void kr_flush_forget_unstable(struct kr_flush *flush)
{
	struct kr_flush_unstable *unstable;

	while ((unstable = KR_LIST_POP(&flush->unstable, struct kr_flush_unstable, link)))
		free(unstable);
}

/* --- the node's own attributes ---------------------------------------------------------------- */

void kr_flush_attributes_set(struct kr_file *file, const struct kr_time *mtime, bool mode)
{
	struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link) {
		if (mtime)
			applied->mtime = *mtime;
		applied->clear_suid &= !mode;
	}
	KR_SCOPED_LOCK(&file->lock);
	if (mtime)
		file->mtime = *mtime;
	file->clear_suid &= !mode;
}
