/* The running round of a file: carries out the actions of its machine (see flush_priv.h, round.h).
 *
 * Loop thread.  An inline round begins with write_inline.  A chained one begins with KR_ROUND_BEGIN, and
 * round_stream.c takes its stream in.  Both end in finish(): the job that sets the file's times.  An action that
 * causes another event only queues more actions.
 */
#include "server/flush/hop.h"
#include "server/flush/flush_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "server/flush/apply.h"
#include "server/export/export.h"
#include "server/flush/round_stream.h"
#include "server/leases/watch.h"

/* --- begin and end ---------------------------------------------------------------------------- */

static struct kr_flush_part *find_part(struct kr_sfile_data *data, uint32_t node)
{
	for (uint32_t i = 0; i < data->part_count; i++) {
		if (data->parts[i].node == node)
			return &data->parts[i];
	}
	return NULL;
}

static struct kr_flush_part *add_part(struct kr_sfile_data *data, const struct kr_request *request)
{
	struct kr_flush_part *part;

	if (data->part_count == data->part_capacity) {
		uint32_t capacity = data->part_capacity ? data->part_capacity * 2 : 4;
		struct kr_flush_part *larger = kr_xcalloc(capacity, sizeof *larger);

		if (data->part_count)
			memcpy(larger, data->parts, data->part_count * sizeof *larger);
		free(data->parts);
		data->parts = larger;
		data->part_capacity = capacity;
	}
	part = &data->parts[data->part_count++];
	*part = (struct kr_flush_part){.node = request->session->node};
	memcpy(part->node_id, request->session->node_id, sizeof part->node_id);
	data->resend &= (request->msg.flush_request.flags & KR_FLUSH_RESEND) != 0;
	return part;
}

static void begin_round(struct kr_sfile_data *data)
{
	data->part_count = 0;
	data->clear_suid = false;
	data->round_overlapped = 0;
	data->mtime_is_set = false;
	data->resend = !data->commit.failed; /* after a failed sync the disk may lack bytes that the page cache has */
	data->differs = false;
	data->mtime = (struct kr_time){.sec = INT64_MIN};
	data->base_version = 0;
	data->base_changes = data->file->changes;
	data->base_known = !data->file->changing;
	data->epoch_before = data->file->changed_epoch;
	data->ctime_before = (struct kr_time){.sec = INT64_MAX};
	kr_sfile_changing(data->file);
	data->changes = data->file->changes;
	data->changing = true;
}

/* Whether other nodes may have seen the former bytes and hold READ since.  A participant may have flushed without
 * WRITE, while READ was recalled from it, or its session has ended and other nodes have its leases. */
static bool changed_under_others(const struct kr_sfile_data *data)
{
	for (uint32_t i = 0; i < data->part_count; i++) {
		const struct kr_flush_part *part = &data->parts[i];

		if (!kr_session_find_node(data->file->server, part->node))
			return true;
		if (!(kr_lease_table_held(&data->file->leases, part->node) & KR_LEASE_WRITE))
			return true;
	}
	return false;
}

/* A node's own bytes are no change by others.  UNDISTURBED: no other change came during the round. */
static void record_own_change(struct kr_sfile_data *data, bool undisturbed)
{
	struct kr_sfile *file = data->file;

	if (data->part_count != 1 || !undisturbed)
		return;
	/* Consecutive rounds of one node. */
	if (file->own_epoch != data->epoch_before || memcmp(file->own_node, data->parts[0].node_id, 16) != 0) {
		file->own_base = data->epoch_before;
		file->own_ctime = data->ctime_before;
	}
	memcpy(file->own_node, data->parts[0].node_id, 16);
	file->own_epoch = file->changed_epoch;
}

static void end_changes(struct kr_sfile_data *data)
{
	bool undisturbed = data->file->changes == data->changes;

	if (!data->changing)
		return;
	data->changing = false;
	for (uint32_t i = 0; i < data->part_count; i++) {
		const struct kr_flush_part *part = &data->parts[i];

		if (part->seq)
			kr_applied_reach(&kr_data_of(data->file)->applied, &data->file->fid, part->node_id, part->seq);
	}
	kr_sfile_changed(data->file);
	if (data->resend && !data->differs) {
		if (undisturbed)
			data->file->changed_epoch = data->epoch_before; /* nothing has changed */
		return;
	}
	record_own_change(data, undisturbed);
	if (changed_under_others(data))
		kr_lease_table_outdate(&data->file->leases);
}

void kr_flush_before(struct kr_sfile *file, const struct kr_attr *before)
{
	struct kr_sfile_data *data = file->data;

	data->ctime_before = before->ctime;
	if (!data->base_known)
		return;
	data->base_version = kr_sfile_version_at(file, before, data->base_changes);
	kr_watch_look(file, before, data->base_changes);
}

static void take_mtime(struct kr_sfile_data *data, struct kr_time mtime)
{
	if (kr_time_compare(mtime, data->mtime) > 0)
		data->mtime = mtime;
}

/* The mtime of the file: what a SETATTR set during the round, else the latest write of this and earlier rounds.
 * Earlier rounds ahead of our clock do not count: the clock has been set back since. */
static struct kr_time final_mtime(struct kr_sfile_data *data)
{
	if (data->mtime_is_set)
		return data->mtime_set;
	if (data->mtime_rounds.sec > kr_clock_real_s() + KR_DATA_AHEAD_S)
		return data->mtime;
	return kr_time_compare(data->mtime, data->mtime_rounds) > 0 ? data->mtime : data->mtime_rounds;
}

void kr_flush_broken_off(struct kr_sfile_data *data)
{
	data->resend = false; /* what was written meanwhile is not known */
	end_changes(data);
}

/* The running round ends. */
static void conclude(struct kr_sfile *file, int err)
{
	struct kr_sfile_data *data = file->data;

	for (uint32_t i = 0; !err && i < data->part_count; i++)
		kr_commit_applied(file, &data->parts[i], data->rounds.round);
	if (err) {
		kr_commit_applied_in_part(file, data->rounds.round);
		data->owner->counters.failed_rounds++;
	}
	kr_rounds_finished(&data->rounds, data->rounds.round, err);
	kr_flush_execute(file);
}

static void finish(struct kr_sfile *file, struct kr_apply *apply);

static void finish_done(struct kr_apply *apply)
{
	struct kr_sfile *file = kr_sfile_ref(apply->file);
	struct kr_sfile_data *data = file->data;
	int err = apply->err;
	bool changed, undisturbed = file->changes == data->changes;

	data->differs |= apply->differs;
	changed = !data->resend || data->differs;
	if (err == 0 && apply->want_before)
		kr_flush_before(file, &apply->before);
	if (err == 0 && changed && data->mtime_is_set && kr_time_compare(apply->mtime, data->mtime_set) != 0) {
		/* a SETATTR came during this job; the order is unknown, and its mtime counts */
		finish(file, kr_apply_new(file, apply->round, finish_done, NULL));
	} else {
		end_changes(data);
		data->after = apply->after;
		data->after.version = 0;
		if (err == 0) {
			if (undisturbed)
				kr_sfile_version(file, file->changes, &data->after);
			if (changed)
				data->mtime_rounds =
					data->mtime_is_set ? (struct kr_time){.sec = INT64_MIN} : apply->mtime;
			data->overlapped += data->round_overlapped;
			data->owner->counters.overlapped += data->round_overlapped;
		}
		conclude(file, err);
	}
	kr_apply_free(apply);
	kr_sfile_put(file);
}

static void finish(struct kr_sfile *file, struct kr_apply *apply)
{
	struct kr_sfile_data *data = file->data;

	apply->finish = true;
	apply->compare = data->resend;
	apply->differs = data->differs;
	apply->clear_suid = data->clear_suid;
	apply->mtime = final_mtime(data);
	kr_apply_start(apply);
}

/* --- the machine's actions -------------------------------------------------------------------- */

static void write_inline(struct kr_sfile *file, const struct kr_round_action *action)
{
	struct kr_sfile_data *data = file->data;
	struct kr_request *request = action->token;
	const struct kr_flush_request *msg = &request->msg.flush_request;
	struct kr_apply *apply = kr_apply_new(file, action->round, finish_done, NULL);
	size_t position = 0;

	begin_round(data);
	add_part(data, request)->seq = msg->seq;
	take_mtime(data, msg->mtime);
	data->clear_suid = msg->clear_suid;
	for (uint32_t i = 0; i < msg->extents.count; i++) {
		const struct kr_range *extent = &msg->extents.ranges[i];

		kr_apply_add(apply, extent->offset, request->data, position, extent->length);
		position += extent->length;
	}
	if (position == 0 && msg->flags & KR_FLUSH_RESEND)
		data->resend = true; /* the node has nothing any more of what it owes */
	apply->want_before = true;
	apply->check = position > 0;
	apply->checksum = msg->checksum;
	data->owner->counters.inline_rounds++;
	data->owner->counters.bytes += position;
	request->session->ring.flushed_bytes += position;
	data->owner->counters.extents += msg->extents.count;
	finish(file, apply);
}

/* A ROUND on its way to a node. */
struct sent_round {
	struct kr_sfile *file; /* reference */
	uint64_t round;
	uint32_t node;
};

static void round_answered(struct kr_session *session, void *context, int err, const void *reply)
{
	struct sent_round *sent = context;
	struct kr_sfile_data *data = sent->file->data;
	const struct kr_round_reply *accepted = reply;

	(void)session;
	if (data->rounds.state == KR_ROUND_CHAIN && data->rounds.round == sent->round) {
		if (err == 0) {
			struct kr_flush_part *part = find_part(data, sent->node);

			if (part)
				part->seq = accepted->seq;
			take_mtime(data, accepted->mtime);
			data->clear_suid |= accepted->clear_suid != 0;
			if (data->round_stream)
				data->round_stream->moved_ns = kr_clock_ns();
		}
		if (err == -ENOTCONN)
			kr_rounds_lost(&data->rounds, sent->node);
		else
			kr_rounds_accepted(&data->rounds, sent->round, sent->node, err);
		kr_flush_execute(sent->file);
	}
	kr_sfile_put(sent->file);
	free(sent);
}

static void send_round(struct kr_sfile *file, const struct kr_round_action *action)
{
	struct kr_sfile_data *data = file->data;
	struct kr_request *request = action->token;
	struct kr_session *session = request->session;
	struct kr_round_request msg = {.file = file->fid, .round = action->round, .has_upstream = action->has_upstream};
	struct sent_round *sent;
	char host[64];

	if (request->msg.flush_request.clear_suid)
		data->clear_suid = true;
	add_part(data, request);
	if (!kr_hop_address_of(data->owner, session, action->downstream, host, &msg.downstream)) {
		kr_rounds_broken(&data->rounds, action->round);
		return;
	}
	sent = kr_xcalloc(1, sizeof *sent);
	sent->file = kr_sfile_ref(file);
	sent->round = action->round;
	sent->node = action->node;
	if (kr_callback_send(session, KR_MSG_ROUND, &msg, round_answered, sent) == 0) {
		kr_sfile_put(file);
		free(sent);
		kr_rounds_lost(&data->rounds, action->node);
	}
}

static void send_abort(struct kr_sfile *file, const struct kr_round_action *action)
{
	struct kr_session *session = kr_session_find_node(file->server, action->node);
	struct kr_round_abort_request msg = {.file = file->fid, .round = action->round};

	if (session)
		kr_callback_send(session, KR_MSG_ROUND_ABORT, &msg, NULL, NULL);
}

static void discard(struct kr_sfile *file, uint64_t round)
{
	struct kr_round_stream *round_stream = file->data->round_stream;

	file->data->owner->counters.aborted_rounds++;
	file->data->round_stream = NULL;
	if (round_stream)
		kr_round_stream_discard(round_stream);
	else
		kr_flush_drained(file, round);
}

static void answer(struct kr_sfile_data *data, const struct kr_round_action *action)
{
	struct kr_request *request = action->token;
	struct kr_flush_reply reply = {
		.round = action->round, .base_version = action->alone ? data->base_version : 0, .attr = data->after};

	struct kr_attachment *attachment = kr_attachment_find(data->file, request->session);

	if (attachment)
		attachment->flushed_ns = kr_clock_ns();
	if (action->err == 0)
		(void)KR_FAULT("flush.reply");
	if (attachment) {
		kr_cover_flushed(&attachment->cover, action->err);
		kr_lease_table_refused(&data->file->leases, request->session->node, attachment->cover.refused);
		if (attachment->cover.refused)
			kr_commit_refused(data->file, request->session);
	}
	kr_flush_uncount(request);
	kr_request_reply(request, action->err, action->err ? NULL : &reply, NULL, 0);
}

static void perform(struct kr_sfile *file, const struct kr_round_action *action)
{
	struct kr_sfile_data *data = file->data;

	switch (action->kind) {
	case KR_ROUND_WRITE:
		write_inline(file, action);
		break;
	case KR_ROUND_BEGIN:
		begin_round(data);
		data->round_stream = kr_round_stream_new(file, action->round, action->node);
		break;
	case KR_ROUND_SEND:
		/* The action before may have aborted the round; then the request may be gone too. */
		if (data->rounds.state == KR_ROUND_CHAIN && data->rounds.round == action->round)
			send_round(file, action);
		break;
	case KR_ROUND_FINISH:
		data->owner->counters.chained_rounds++;
		data->owner->counters.chained_nodes += data->part_count;
		finish(file, kr_apply_new(file, action->round, finish_done, NULL));
		break;
	case KR_ROUND_ABORT:
		send_abort(file, action);
		break;
	case KR_ROUND_DISCARD:
		discard(file, action->round);
		break;
	case KR_ROUND_REPLY:
		answer(data, action);
		break;
	}
}

void kr_flush_execute(struct kr_sfile *file)
{
	struct kr_sfile_data *data = file->data;
	struct kr_round_action action;

	if (data->executing)
		return;
	data->executing = true;
	kr_sfile_ref(file);
	while (kr_rounds_action(&data->rounds, &action))
		perform(file, &action);
	data->executing = false;
	if (!kr_rounds_idle(&data->rounds) && !kr_link_linked(&data->busy)) {
		kr_list_append(&data->owner->busy, &data->busy);
		kr_sfile_ref(file);
	} else if (kr_rounds_idle(&data->rounds) && kr_link_linked(&data->busy)) {
		kr_list_remove(&data->busy);
		kr_sfile_put(file);
	}
	kr_sfile_put(file);
}
