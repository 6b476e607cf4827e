/* What the nodes of replay_world.h do when a session begins, and from then on: what they claim, replay and flush, and
 * how they answer the server. */
#ifndef KR_TEST_UNIT_REPLAY_NODES_H
#define KR_TEST_UNIT_REPLAY_NODES_H

#include "test/unit/server/recovery/replay_world.h"

/* --- RECLAIM ---------------------------------------------------------------------------------- */

static inline void note_span(uint64_t *first, uint64_t *last, uint64_t number)
{
	*first = *first ? KR_MIN(*first, number) : number;
	*last = KR_MAX(*last, number);
}

static inline struct kr_reclaim_request claims_of(unsigned node, unsigned file)
{
	const struct view *view = &W.members[node].views[file];
	struct kr_reclaim_request msg = {
		.file = W.files[file], .kinds = view->opened ? KR_LEASE_WRITE : 0, .since = view->since};

	FOR_EACH_WRITE(write)
	{
		if (write->node != node || write->file != file)
			continue;
		if (write->state == WRITE_DIRTY) {
			note_span(&msg.first, &msg.last, write->seq);
		} else if (write->state == WRITE_WAITS) {
			note_span(&msg.replay_first, &msg.replay_last, write->seq);
			note_span(&msg.oldest, &msg.newest, write->round);
		}
	}
	return msg;
}

static inline void take_verdict(unsigned node, unsigned file, const struct kr_reclaim_reply *reply)
{
	FOR_EACH_WRITE(write)
	{
		if (write->node != node || write->file != file)
			continue;
		if (write->state == WRITE_WAITS && reply->conflict & KR_CONFLICT_REPLAYS) {
			write->state = WRITE_CONFLICT;
		} else if (write->state == WRITE_DIRTY && write->seq <= reply->applied_seq) {
			write->state = WRITE_APPLIED;
			write->order = write->round = reply->applied_round;
		} else if (write->state == WRITE_DIRTY && reply->conflict & KR_CONFLICT_DIRTY) {
			write->state = WRITE_CONFLICT;
		}
	}
}

static void reclaim_heard(void *context, int err, const void *reply_pointer, struct kr_buf *data, bool more)
{
	const struct kr_reclaim_reply *reply = reply_pointer;
	struct sent *sent = context;
	struct view *view = view_of(sent);

	(void)data;
	(void)more;
	if (view) {
		story("{%s%u verdict %d %d}", node_names[sent->node], sent->file, err, err ? 0 : reply->conflict);
		view->asked = false;
		view->reclaimed = true;
		view->keeps = err != 0;
		if (!err) {
			take_verdict(sent->node, sent->file, reply);
			note_attr(view, &reply->attr);
			view->held |= (reply->kinds & KR_LEASE_WRITE) != 0;
			if (W.members[sent->node].done_sent)
				send_replays(sent->node, sent->file);
		}
	}
	free(sent);
}

static inline void ask(unsigned node, unsigned file)
{
	struct view *view = &W.members[node].views[file];
	struct kr_reclaim_request msg = claims_of(node, file);

	if (!msg.kinds && !msg.last && !msg.replay_last) {
		view->reclaimed = true;
		view->keeps = false;
		return;
	}
	view->asked = true;
	story("{%s%u asks}", node_names[node], file);
	assert_true(kr_conn_request(F.nodes[node].control, KR_MSG_RECLAIM, &msg, NULL, 0, reclaim_heard,
			    new_sent(node, file, NULL)) > 0);
}

static void done_heard(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct sent *sent = context;

	(void)reply;
	(void)data;
	(void)more;
	if (view_of(sent)) {
		story("{%s done %d}", node_names[sent->node], err);
		W.members[sent->node].done = err == 0;
	}
	free(sent);
}

/* All has been claimed: what is to be replayed goes out, and then the word. */
static inline void end_recovery(unsigned node)
{
	W.members[node].done_sent = true;
	for (unsigned file = 0; file < WORLD_FILES; file++) {
		if (!W.members[node].views[file].keeps)
			send_replays(node, file);
	}
	assert_true(kr_conn_request(F.nodes[node].control, KR_MSG_RECLAIM_DONE, NULL, NULL, 0, done_heard,
			    new_sent(node, 0, NULL)) > 0);
}

/* --- what the server asks --------------------------------------------------------------------- */

static inline unsigned file_of_fid(const struct kr_fid *fid)
{
	unsigned file = 0;

	while (!kr_fid_equal(&W.files[file], fid))
		assert_true(++file < WORLD_FILES);
	return file;
}

static inline void stable_up_to(unsigned node, unsigned file, uint64_t round)
{
	FOR_EACH_WRITE(write)
	{
		if (write->node == node && write->file == file && write->state == WRITE_APPLIED &&
			write->round <= round)
			write->state = WRITE_STABLE;
	}
}

static bool world_asked(struct node *node, uint16_t type, uint64_t id, const union kr_any_msg *msg)
{
	unsigned number = (unsigned)(node - F.nodes);
	unsigned file;

	switch (type) {
	case KR_MSG_STABLE:
		stable_up_to(number, file_of_fid(&msg->stable_request.file), msg->stable_request.round);
		return false;
	case KR_MSG_RECALL:
		file = file_of_fid(&msg->recall_request.file);
		W.members[number].views[file].recall_id = id;
		settle_recall(number, file);
		return true;
	default:
		return false;
	}
}

/* --- a node's life ---------------------------------------------------------------------------- */

/* Its session is lost, not its journal. */
static inline void lose_session(unsigned node)
{
	struct member *member = &W.members[node];

	member->session++;
	member->done_sent = member->done = false;
	for (unsigned file = 0; file < WORLD_FILES; file++) {
		struct view *view = &member->views[file];

		view->asked = view->reclaimed = view->keeps = view->leasing = view->flushing = view->held = false;
		view->in_flight = 0;
		view->recall_id = 0;
		abandon(node, file);
	}
	FOR_EACH_WRITE(write)
	{
		if (write->node == node && write->state == WRITE_FLUSHING)
			write->state = WRITE_DIRTY;
	}
}

static inline bool world_recovering(unsigned node)
{
	struct member *member = &W.members[node];

	for (unsigned file = 0; file < WORLD_FILES; file++) {
		if (!member->views[file].reclaimed && !member->views[file].asked)
			ask(node, file);
		if (!member->views[file].reclaimed)
			return true;
	}
	return false;
}

static inline bool is_idle(const struct view *view)
{
	return !view->asked && !view->leasing && !view->flushing && !view->in_flight;
}

/* Replays come before what is dirty. */
static inline void go_on_with(unsigned node, unsigned file)
{
	struct view *view = &W.members[node].views[file];

	settle_recall(node, file);
	if (!is_idle(view))
		return;
	if (view->keeps) {
		ask(node, file);
		return;
	}
	if (has(node, file, WRITE_WAITS))
		return;
	FOR_EACH_WRITE(write)
	{
		if (write->node == node && write->file == file && write->state == WRITE_DIRTY) {
			flush_write(write);
			return;
		}
	}
}

/* The next that NODE does. */
static inline void step(unsigned number)
{
	struct node *node = &F.nodes[number];
	struct member *member = &W.members[number];

	if (!node->control && !member->away) {
		node->manual_reclaim = true;
		node_begin(node);
	}
	if (!node->control || !node->live)
		return;
	if (!member->done_sent) {
		if (!world_recovering(number))
			end_recovery(number);
	} else {
		/* Nothing dirty is sent before the session is live; what was refused in its turn is asked for before.
		 */
		for (unsigned file = 0; file < WORLD_FILES; file++) {
			if (member->done || member->views[file].keeps)
				go_on_with(number, file);
		}
	}
}

#endif
