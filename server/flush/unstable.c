/* Failed syncs: the nodes whose rounds they may have lost send these again (see UNSTABLE in msgs.def, stable.h).
 *
 * Loop thread.  What the kernel failed to write it calls clean: only the nodes' journals have it for certain.  It goes
 * in again in the order of the rounds, since of two that wrote the same byte either may come first.  So no round of the
 * file begins before all whom it concerns have sent their replays (flush.c asks kr_stable_restores): then these
 * run by their rounds, as after a loss of power, and after them what waited.  They need no lease: they make the file
 * what everybody takes it for.  A node answers when it has sent them, whatever else it waits for, so nothing that waits
 * for a round here can keep it from that.
 *
 * Nobody is waited for longer than half the lease time, nor who has no session, or reclaims: what these bring goes in
 * as bytes not flushed, and so does what comes after the wait.  (So does what a node sends
 * whose connection is paused meanwhile.  It has too much here, counted before the sync failed or without room, and
 * waits for this: its answer is behind that.) What a late node had sent before it was away is judged as its late bytes
 * are. But it does not count as one that waits for that: if its daemon, or this one, is killed before it has asked, who
 * takes its place is not late.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "server/flush/data_state.h"

/* An UNSTABLE on its way to a node. */
struct sent_unstable {
	struct kr_link link;   /* in kr_stable.asked; nowhere: it is not waited for (any more) */
	struct kr_sfile *file; /* reference */
	uint32_t node;
	struct kr_applied_loss loss;
};

bool kr_stable_restores(const struct kr_sfile *file)
{
	return !kr_list_empty(&file->data->stable.asked);
}

bool kr_stable_may_restore(const struct kr_sfile *file, uint32_t node)
{
	const struct sent_unstable *sent;

	KR_LIST_FOR_EACH(sent, &file->data->stable.asked, link) {
		if (sent->node == node)
			return true;
	}
	return false;
}

static void waited(struct sent_unstable *sent)
{
	struct kr_stable *stable = &sent->file->data->stable;

	kr_list_remove(&sent->link);
	if (kr_list_empty(&stable->asked))
		kr_list_remove(&stable->restoring);
}

static void answered(struct kr_session *session, void *context, int err, const void *message)
{
	const struct kr_unstable_reply *reply = message;
	struct sent_unstable *sent = context;
	struct kr_sfile *file = sent->file;
	bool in_time = kr_link_linked(&sent->link);

	if (err == 0) /* else it is told at its RECLAIM */
		kr_applied_told(&kr_data_of(file)->applied, &file->fid, session->node_id, &sent->loss,
			reply->resent && in_time);
	waited(sent);
	if (in_time && !session->dead) /* else when its own flushes have been dropped: kr_flush_session_lost */
		kr_flush_update_hold_of(file);
	kr_sfile_put(file);
	free(sent);
}

/* Whether UNSTABLE is on its way (and SENT borrowed until it is answered). */
static struct sent_unstable *send_unstable(
	struct kr_sfile *file, struct kr_session *session, const struct kr_applied_loss *loss)
{
	struct kr_unstable_request msg = {
		.file = file->fid, .round = loss->good, .last = loss->last, .error = kr_status_from_errno(loss->err)};
	struct sent_unstable *sent = kr_xcalloc(1, sizeof *sent);

	*sent = (struct sent_unstable){.file = kr_sfile_ref(file), .node = session->node, .loss = *loss};
	kr_link_init(&sent->link);
	if (kr_callback_send(session, KR_MSG_UNSTABLE, &msg, answered, sent))
		return sent;
	kr_sfile_put(file);
	free(sent);
	return NULL;
}

void kr_stable_tell_again(struct kr_sfile *file, struct kr_session *session, const struct kr_applied_entry *entry)
{
	struct kr_applied_loss loss = {.good = entry->good, .last = entry->last, .err = entry->unstable_err};

	send_unstable(file, session, &loss);
}

int kr_stable_tell_untold(struct kr_sfile *file, struct kr_session *session)
{
	const struct kr_applied_entry *entry =
		kr_applied_find(&kr_data_of(file)->applied, &file->fid, session->node_id);
	int err = entry ? entry->unstable_err : 0;

	if (!err || kr_stable_may_restore(file, session->node))
		return 0;
	kr_stable_tell_again(file, session, entry);
	return err;
}

/* Tells SESSION's node of LOSS, and waits for it. One that is reclaiming may wait for others, who may wait for this
 * file. */
static void ask(struct kr_sfile *file, struct kr_session *session, const struct kr_applied_loss *loss)
{
	struct kr_stable *stable = &file->data->stable;
	struct sent_unstable *sent = send_unstable(file, session, loss);

	if (!sent || session->recovery.reclaiming)
		return;
	kr_list_append(&stable->asked, &sent->link);
	if (kr_link_linked(&stable->restoring))
		return; /* another failed sync does not prolong the wait */
	stable->asked_until_ns = kr_clock_ns() + file->server->lease_ms * KR_NS_PER_MS / 2;
	kr_list_append(&kr_data_of(file)->restoring, &stable->restoring);
}

/* All rounds since the last good sync may be lost, also those applied while the failed one ran. */
void kr_stable_lost(struct kr_sfile *file, int err)
{
	struct kr_stable *stable = &file->data->stable;
	struct kr_applied_loss loss = {.good = stable->good, .last = stable->applied, .err = err};

	for (uint32_t i = 0; i < stable->owner_count; i++) {
		struct kr_stable_owner *owner = &stable->owners[i];
		struct kr_session *session = kr_session_find_node_id(file->server, owner->node_id);

		kr_applied_note_unstable(&kr_data_of(file)->applied, &file->fid, owner->node_id, &loss);
		if (session)
			ask(file, session, &loss);
	}
	stable->owner_count = 0;
	kr_synced_lose(&kr_data_of(file)->synced, stable->applied);
	stable->taint = err; /* a round that runs has bytes in the same file */
	kr_flush_update_hold_of(file);
}

/* They go in anew, the oldest first, over what is there still, as a rule.  Until all of them have, the file is being
 * changed: no block of it is served. (In the grace period nothing is.) */
void kr_stable_restoring(struct kr_sfile_data *data)
{
	if (data->restoring || data->file->server->sessions->grace.active)
		return;
	data->restoring = true;
	data->mtime_kept = (struct kr_time){.sec = INT64_MIN};
	data->restorations++;
	kr_sfile_changing(data->file);
}

void kr_stable_restored(struct kr_sfile_data *data)
{
	if (!data->restoring || kr_rounds_replay(&data->rounds))
		return;
	data->restoring = false;
	kr_sfile_changed(data->file);
}

/* Those who have not answered send what they have as bytes not flushed. */
static void wait_no_longer(struct kr_sfile *file)
{
	struct kr_stable *stable = &file->data->stable;

	while (kr_stable_restores(file)) {
		struct sent_unstable *sent = KR_LIST_ENTRY(stable->asked.head.next, struct sent_unstable, link);
		const struct kr_session *session = kr_session_find_node(file->server, sent->node);

		kr_log_warn("node %s has not said that it has sent again what a failed sync may have lost: "
			    "it is not waited for any more",
			session ? session->name : "?");
		waited(sent);
	}
	kr_flush_update_hold_of(file);
}

void kr_stable_tick(struct kr_data *data, uint64_t now_ns)
{
	struct kr_stable *stable, *after;

	KR_LIST_FOR_EACH_SAFE(stable, after, &data->restoring, restoring) {
		if (now_ns >= stable->asked_until_ns)
			wait_no_longer(KR_CONTAINER_OF(stable, struct kr_sfile_data, stable)->file);
	}
}
