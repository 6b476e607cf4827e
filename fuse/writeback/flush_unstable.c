/* UNSTABLE: a sync has failed at the server, and what rounds had brought there may be lost.
 *
 * As a rule they are sent again as they were, before UNSTABLE is answered: as replays, which the server applies in the
 * order of the rounds, those of all nodes, and before anything else.  Such an entry of flush.applied is `lost` until
 * its replay has been answered; no STABLE counts for it. Its APPLIED records are void before, those of the latest
 * first: a start of the daemon finds its bytes dirty.
 *
 * INVARIANT: what becomes dirty again is never older than what waits to be replayed, because replays go in before all
 * that is dirty.  A file may still have rounds that a former boot has lost.  Then those of this boot that a sync loses
 * become replays again as well (kr_journal_unapply).  All go once more, in the order of the file's rounds, and RECLAIM
 * judges them together when they cannot go in their turn.  No APPLIED of the present boot is made of a later one
 * meanwhile (flush_send.c): it would be taken for the last that is there.
 *
 * A replay may be impossible (there is no session, or the file's bytes are being judged, or they are too many), or not
 * taken.  Then its bytes become dirty again, with all that was applied after them, under what is newer, and go in as
 * they come.  But a late node may hear only after it has made its claims of the loss of what it had sent before it was
 * away.  It asks for this once more with RECLAIM (unjudged.c): other nodes may have changed the file since.  Loop
 * thread.
 */
#include <errno.h>

#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"

/* --- as dirty bytes --------------------------------------------------------------------------- */

struct redirty {
	struct kr_file *file;
	int err;
};

static void redirty_piece(void *context, const struct kr_extent *piece)
{
	struct redirty *redirty = context;

	if (kr_extent_map_insert_under(
		    &redirty->file->dirty, piece, kr_journal_release, redirty->file->mount->journal) < 0)
		redirty->err = -ENOMEM;
}

/* Under what is dirty already; the APPLIED records die first.  file->lock is held. */
static int redirty_entry(struct kr_file *file, struct kr_applied *applied)
{
	struct redirty redirty = {file, 0};

	file->clear_suid |= applied->clear_suid;
	kr_journal_void_applied(file->mount->journal, applied);
	kr_extent_map_for_each(&applied->extents, redirty_piece, &redirty);
	kr_extent_map_fini(&applied->extents);
	kr_list_remove(&applied->link);
	free(applied);
	return redirty.err;
}

static void redirty_all(struct kr_file *file, uint64_t after_round, int err)
{
	struct kr_time mtime = {.sec = INT64_MIN};
	struct kr_link *link, *before;
	int failed = 0;
	bool any = false;

	pthread_mutex_lock(&file->lock);
	/* The latest first. */
	for (link = file->flush->applied.head.prev; link != &file->flush->applied.head; link = before) {
		struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);

		before = link->prev;
		if (applied->round <= after_round || !kr_flush_is_current_boot(file, applied))
			continue;
		if (kr_time_compare(applied->mtime, mtime) > 0)
			mtime = applied->mtime;
		any = true;
		if (redirty_entry(file, applied) < 0)
			failed = -ENOMEM;
	}
	if (any) {
		file->flushed_seq = file->flush->clean_seq = 0;
		kr_flush_plan_want(&file->flush->plan, kr_extent_map_max_seq(&file->dirty), false);
		kr_flush_dirtied(file);
	}
	pthread_mutex_unlock(&file->lock);
	if (failed)
		kr_log_error("out of memory: unflushed bytes of a file wait in the journal for the next mount");
	if (any)
		kr_file_redirtied(file, mtime, err);
}

/* The answer of a send takes all up to its seq out of dirty: while one is in flight nothing older may come back. */
void kr_flush_settle_unstable(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;

	if (!flush->unstable || !kr_list_empty(&flush->sends))
		return;
	flush->unstable = false;
	redirty_all(file, flush->unstable_after, flush->unstable_err);
}

/* DO_ENTRY with all that was applied after AFTER_ROUND, the latest first: killed in between a start takes none for
 * applied because a later one is. */
static void each_after(struct kr_file *file, uint64_t after_round,
	void (*do_entry)(struct kr_journal *journal, struct kr_applied *applied))
{
	struct kr_link *link;

	for (link = file->flush->applied.head.prev; link != &file->flush->applied.head; link = link->prev) {
		struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);

		if (applied->round > after_round && kr_flush_is_current_boot(file, applied))
			do_entry(file->mount->journal, applied);
	}
}

/* All that was applied after AFTER_ROUND becomes dirty as soon as nothing is in flight. ERR: for programs; 0: they have
 * been told.  A start finds it so from now on: when UNSTABLE is answered the server does not tell of it again.  What is
 * in flight makes no APPLIED (flush_send.c). */
static void redirty_later(struct kr_file *file, uint64_t after_round, int err)
{
	struct kr_flush *flush = file->flush;

	each_after(file, after_round, kr_journal_void_applied);
	flush->unstable_after = flush->unstable ? KR_MIN(flush->unstable_after, after_round) : after_round;
	flush->unstable_err = err || !flush->unstable ? err : flush->unstable_err;
	flush->unstable = true;
}

/* Whether rounds wait that a former boot has lost; they are later than all that this one has got. */
static bool awaits_replays(const struct kr_file *file)
{
	const struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link)
		if (!applied->lost && !kr_flush_is_current_boot(file, applied))
			return true;
	return false;
}

/* Whatever else becomes of them, what was applied after the first of them comes after it again. */
void kr_flush_forgo_order(struct kr_file *file)
{
	struct kr_applied *applied;
	uint64_t first = 0;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link) {
		if (!applied->lost)
			continue;
		applied->lost = false;
		if (kr_flush_is_current_boot(
			    file, applied)) /* else it is replayed with all that the former boot has lost */
			first = first ? KR_MIN(first, applied->round) : applied->round;
	}
	if (first && awaits_replays(file))
		each_after(file, first - 1, kr_journal_unapply); /* at once, whatever is in flight */
	else if (first)
		redirty_later(file, first - 1, 0);
}

void kr_flush_claimed(struct kr_file *file, struct kr_time since)
{
	struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link) {
		applied->before_claims = true;
		if (kr_time_compare(applied->mtime, since) > 0) /* our lease was good when we wrote */
			since = applied->mtime;
	}
	file->flush->claimed_since = since;
	file->flush->unclaimed = false;
}

/* Whether what will be dirty was in no RECLAIM of a late node that had sent it before it was away: others may have
 * changed the file since, and an answer that lets the node have the file says nothing of these bytes. What it has sent
 * in this session is as any other node's. */
static bool is_claimed_without(const struct kr_file *file)
{
	const struct kr_applied *applied;

	if (!file->flush->unstable || !kr_session_facts(file->mount->session)->late)
		return false;
	KR_LIST_FOR_EACH(applied, &file->flush->applied, link)
		if (applied->before_claims && applied->round > file->flush->unstable_after &&
			kr_flush_is_current_boot(file, applied))
			return true;
	return false;
}

void kr_flush_hold_unclaimed(struct kr_file *file, int err)
{
	if (is_claimed_without(file))
		kr_unjudged_unclaimed(file, err);
}

/* --- as replays ------------------------------------------------------------------------------- */

bool kr_flush_has_lost(const struct kr_file *file)
{
	const struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link)
		if (applied->lost)
			return true;
	return false;
}

static bool replays_are_in_flight(const struct kr_file *file)
{
	const struct kr_flush_send *send;

	KR_LIST_FOR_EACH(send, &file->flush->sends, link)
		if (send->replay)
			return true;
	return false;
}

/* Whether anything that UNSTABLE names is believed to be there. */
static bool is_news(const struct kr_file *file, uint64_t after_round, uint64_t last_round)
{
	const struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link)
		if (kr_flush_is_current_boot(file, applied) && applied->round > after_round &&
			applied->round <= last_round)
			return true;
	return false;
}

/* Whether all that was lost after AFTER_ROUND, up to LAST_ROUND, can go as it was.  Not so when a round after those has
 * been applied already: the server has not waited for us, and an APPLIED that stays would count for what it does not
 * bring. */
static bool may_replay(const struct kr_file *file, uint64_t after_round, uint64_t last_round)
{
	const struct kr_flush *flush = file->flush;
	const struct kr_applied *applied;
	unsigned count = 0;

	if (kr_flusher_of(file)->stopped || kr_flusher_of(file)->recovering || flush->orphaned || flush->late ||
		flush->unstable)
		return false;
	KR_LIST_FOR_EACH(applied, &flush->applied, link) {
		if (!applied->lost && (!kr_flush_is_current_boot(file, applied) || applied->round > last_round))
			return false;
		count += applied->lost || applied->round > after_round;
	}
	return count <= KR_FLUSH_REPLAYS_MAX;
}

/* What could not be read from the journal has not been sent. */
static bool has_broken_off(const struct kr_file *file)
{
	return file->flush->orphaned && kr_flush_has_lost(file);
}

/* What this boot has lost goes before what a former one has. Between sessions the claims have been made without it: it
 * is asked for once more. */
static void replay_all(struct kr_file *file, uint64_t after_round, int err)
{
	kr_flush_forgo_order(file);
	each_after(file, after_round, kr_journal_unapply);
	kr_file_redirtied(file, (struct kr_time){.sec = INT64_MIN}, err);
	if (kr_flusher_of(file)->recovering) {
		file->flush->keeps_replays = true;
		kr_unjudged_unclaimed(file, 0); /* they have been told */
	} else if (!kr_flusher_of(file)->stopped) {
		kr_flush_replay_file(file, KR_RPC_HARD);
	}
	kr_flush_step(file);
}

bool kr_flush_unstable(struct kr_file *file, const struct kr_unstable_request *request)
{
	struct kr_flush *flush = file->flush;
	int err = kr_status_to_errno(request->error);
	bool all = !replays_are_in_flight(file);

	flush->lost_round = KR_MAX(flush->lost_round, request->last);
	if (!is_news(file, request->round, request->last))
		return all && !flush->unstable && !has_broken_off(file);
	if (awaits_replays(file)) {
		replay_all(file, request->round, err);
		return false; /* of those that were on their way nothing is known */
	}
	if (!may_replay(file, request->round, request->last)) {
		kr_flush_forgo_order(file);
		redirty_later(file, request->round, err);
		kr_flush_hold_unclaimed(file, err); /* before a step sends it */
		kr_flush_step(file);
		return false;
	}
	each_after(file, request->round, kr_journal_lose_applied);
	kr_file_redirtied(file, (struct kr_time){.sec = INT64_MIN}, err);
	kr_flush_replay_file(file, KR_RPC_HARD);
	kr_flush_step(file);
	return all && !has_broken_off(file);
}
