/* Flush rounds at work: requests in, the round machine's actions out (see flush.h, round.h).
 *
 * Every event of a file's machine is followed by execute(), which carries the actions out; an action that causes a further
 * event only queues more actions.  A file with flushes is in kr_data.busy and holds a reference to itself.
 */
#include "server/flush.h"

#include <errno.h>
#include <stdlib.h>

#include "common/fault.h"
#include "common/log.h"
#include "server/apply.h"
#include "server/data_priv.h"
#include "server/export.h"
#include "server/intake.h"
#include "server/opens.h"
#include "server/trust.h"
#include "server/watch.h"

void kr_sfile_data_init(struct kr_sfile_data *data, struct kr_data *owner, struct kr_sfile *file)
{
	memset(data, 0, sizeof *data);
	data->owner = owner;
	data->file = file;
	data->mtime_rounds.sec = INT64_MIN;
	kr_rounds_init(&data->rounds, kr_data_next_round, owner);
	kr_rounds_hold(&data->rounds, owner && owner->collecting);
	kr_link_init(&data->busy);
	kr_link_init(&data->gathering);
	kr_stable_file_init(&data->stable);
	data->stable.others_round = owner ? owner->forgotten_round : 0;
}

void kr_sfile_data_fini(struct kr_sfile_data *data)
{
	kr_rounds_fini(&data->rounds);
	kr_list_remove(&data->busy);
	kr_list_remove(&data->gathering);
	kr_intake_free(data->intake);
	free(data->parts);
	if (data->owner)
		data->owner->forgotten_round = KR_MAX(data->owner->forgotten_round, data->stable.writer_round);
	kr_stable_file_fini(&data->stable);
}

/* --- the running round --------------------------------------------------------------------------------------------- */

static struct kr_flush_part *find_part(struct kr_sfile_data *data, uint32_t node)
{
	for (uint32_t i = 0; i < data->part_count; i++) {
		if (data->parts[i].node == node)
			return &data->parts[i];
	}
	return NULL;
}

static struct kr_flush_part *add_part(struct kr_sfile_data *data, const struct kr_session *session)
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
	*part = (struct kr_flush_part){ .node = session->node };
	memcpy(part->node_id, session->node_id, sizeof part->node_id);
	return part;
}

static void begin_round(struct kr_sfile_data *data)
{
	data->part_count = 0;
	data->clear_suid = false;
	data->round_overlapped = 0;
	data->mtime_is_set = false;
	data->stable.taint = 0;
	data->mtime = (struct kr_time){ .sec = INT64_MIN };
	data->base_version = 0;
	data->base_changes = data->file->changes;
	data->base_known = !data->file->changing;
	data->epoch_before = data->file->changed_epoch;
	kr_sfile_changing(data->file);
	data->changes = data->file->changes;
	data->changing = true;
}

/* The bytes have changed, or may have. */
static void end_changes(struct kr_sfile_data *data)
{
	if (!data->changing)
		return;
	data->changing = false;
	kr_sfile_changed(data->file);
}

void kr_flush_before(struct kr_sfile *file, const struct kr_attr *before)
{
	struct kr_sfile_data *data = &file->data;

	if (!data->base_known)
		return;
	data->base_version = kr_export_attr_version(file->server->export, before, data->base_changes);
	kr_watch_look(file, before, data->base_changes);
}

static void take_mtime(struct kr_sfile_data *data, struct kr_time mtime)
{
	if (kr_time_compare(mtime, data->mtime) > 0)
		data->mtime = mtime;
}

/* The mtime that the file gets: what somebody set while the round ran, else the latest write of this and earlier rounds; but for
 * earlier ones that are ahead of our clock, by which the nodes go: it has been set back since. */
static struct kr_time final_mtime(struct kr_sfile_data *data)
{
	if (data->mtime_is_set)
		return data->mtime_set;
	if (data->mtime_rounds.sec > (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) + KR_DATA_AHEAD_S)
		return data->mtime;
	return kr_time_compare(data->mtime, data->mtime_rounds) > 0 ? data->mtime : data->mtime_rounds;
}

static void execute(struct kr_sfile *file);
static void update_hold(struct kr_sfile_data *data);

/* A node's own bytes are nothing that others changed. UNDISTURBED: nobody else changed the file while the round ran. */
static void note_own(struct kr_sfile_data *data, bool undisturbed)
{
	struct kr_sfile *file = data->file;

	if (data->part_count != 1 || !undisturbed)
		return;
	/* One round of a node after the other. */
	if (file->own_epoch != data->epoch_before || memcmp(file->own_node, data->parts[0].node_id, 16) != 0)
		file->own_base = data->epoch_before;
	memcpy(file->own_node, data->parts[0].node_id, 16);
	file->own_epoch = file->changed_epoch;
}

static void note_applied(struct kr_sfile_data *data)
{
	uint64_t round = data->rounds.round;

	for (uint32_t i = 0; i < data->part_count; i++) {
		struct kr_flush_part *part = &data->parts[i];

		kr_applied_note(&data->owner->applied, &data->file->fid, part->node_id, part->seq, round);
		kr_stable_applied(data->file, part->node_id, round);
	}
}

static void finish(struct kr_sfile *file, struct kr_apply *apply);

static void finish_done(struct kr_apply *apply)
{
	struct kr_sfile *file = kr_sfile_ref(apply->file);
	struct kr_sfile_data *data = &file->data;
	int err = apply->err ? apply->err : data->stable.taint;

	if (err == 0 && apply->want_before)
		kr_flush_before(file, &apply->before);
	if (err == 0 && data->mtime_is_set && kr_time_compare(apply->mtime, data->mtime_set) != 0) {
		/* somebody set it while this job ran: whose came last is not known, theirs counts */
		struct kr_apply *again = kr_apply_new(file, apply->round, finish_done, NULL);

		finish(file, again);
	} else {
		bool undisturbed = file->changes == data->changes;

		end_changes(data);
		note_own(data, undisturbed);
		data->after = apply->after;
		data->after.version = 0;
		if (err == 0) {
			if (undisturbed)
				kr_sfile_version(file, file->changes, &data->after);
			data->mtime_rounds = data->mtime_is_set ? (struct kr_time){ .sec = INT64_MIN } : apply->mtime;
			data->overlapped += data->round_overlapped;
			data->owner->counters.overlapped += data->round_overlapped;
			note_applied(data);
		} else {
			data->owner->counters.failed_rounds++;
		}
		kr_rounds_finished(&data->rounds, apply->round, err);
		execute(file);
	}
	kr_apply_free(apply);
	kr_sfile_put(file);
}

static void finish(struct kr_sfile *file, struct kr_apply *apply)
{
	apply->finish = true;
	apply->clear_suid = file->data.clear_suid;
	apply->mtime = final_mtime(&file->data);
	kr_apply_start(apply);
}

/* --- the machine's actions ----------------------------------------------------------------------------------------- */

static void write_inline(struct kr_sfile *file, const struct kr_round_action *action)
{
	struct kr_sfile_data *data = &file->data;
	struct kr_request *request = action->token;
	const struct kr_flush_request *msg = &request->msg.flush_request;
	struct kr_apply *apply = kr_apply_new(file, action->round, finish_done, NULL);
	size_t position = 0;

	begin_round(data);
	add_part(data, request->session)->seq = msg->seq;
	take_mtime(data, msg->mtime);
	data->clear_suid = msg->clear_suid;
	for (uint32_t i = 0; i < msg->extents.count; i++) {
		const struct kr_range *extent = &msg->extents.ranges[i];

		kr_apply_add(apply, extent->offset, request->data, position, extent->length);
		position += extent->length;
	}
	apply->want_before = true;
	apply->check = position > 0;
	apply->checksum = msg->checksum;
	data->owner->counters.inline_rounds++;
	data->owner->counters.bytes += position;
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
	struct kr_sfile_data *data = &sent->file->data;
	const struct kr_round_reply *accepted = reply;

	(void)session;
	if (data->rounds.state == KR_ROUND_CHAIN && data->rounds.round == sent->round) {
		if (err == 0) {
			struct kr_flush_part *part = find_part(data, sent->node);

			if (part)
				part->seq = accepted->seq;
			take_mtime(data, accepted->mtime);
			data->clear_suid |= accepted->clear_suid != 0;
			if (data->intake)
				data->intake->moved_ns = kr_clock_ns();
		}
		if (err == -ENOTCONN)
			kr_rounds_lost(&data->rounds, sent->node);
		else
			kr_rounds_accepted(&data->rounds, sent->round, sent->node, err);
		execute(sent->file);
	}
	kr_sfile_put(sent->file);
	free(sent);
}

static void send_round(struct kr_sfile *file, const struct kr_round_action *action)
{
	struct kr_sfile_data *data = &file->data;
	struct kr_request *request = action->token;
	struct kr_session *session = request->session;
	struct kr_round_request msg = { .file = file->fid, .round = action->round, .has_upstream = action->has_upstream };
	struct sent_round *sent;
	char host[64];

	if (request->msg.flush_request.clear_suid)
		data->clear_suid = true;
	add_part(data, session);
	if (!kr_data_hop(data->owner, session, action->downstream, host, &msg.downstream)) {
		kr_rounds_broken(&data->rounds, action->round);
		return;
	}
	sent = kr_xcalloc(1, sizeof *sent);
	sent->file = kr_sfile_ref(file);
	sent->round = action->round;
	sent->node = action->node;
	if (kr_session_ask(session, KR_MSG_ROUND, &msg, round_answered, sent) == 0) {
		kr_sfile_put(file);
		free(sent);
		kr_rounds_lost(&data->rounds, action->node);
	}
}

static void send_abort(struct kr_sfile *file, const struct kr_round_action *action)
{
	struct kr_session *session = kr_session_find_node(file->server, action->node);
	struct kr_round_abort_request msg = { .file = file->fid, .round = action->round };

	if (session)
		kr_session_ask(session, KR_MSG_ROUND_ABORT, &msg, NULL, NULL);
}

static void discard(struct kr_sfile *file, uint64_t round)
{
	struct kr_intake *intake = file->data.intake;

	file->data.owner->counters.aborted_rounds++;
	file->data.intake = NULL;
	if (intake)
		kr_intake_discard(intake);
	else
		kr_flush_drained(file, round);
}

static void answer(struct kr_sfile_data *data, const struct kr_round_action *action)
{
	struct kr_request *request = action->token;
	struct kr_flush_reply reply = { .round = action->round, .base_version = action->alone ? data->base_version : 0,
		.attr = data->after };

	struct kr_attachment *attachment = kr_attachment_find(data->file, request->session);

	if (attachment)
		attachment->flushed_ns = kr_clock_ns();
	if (action->err == 0)
		(void)KR_FAULT("flush.reply");
	if (request->msg.flush_request.flags & KR_FLUSH_REPLAY)
		data->owner->replays--;
	if (request->state)
		request->session->running--;
	kr_request_reply(request, action->err, action->err ? NULL : &reply, NULL, 0);
}

static void perform(struct kr_sfile *file, const struct kr_round_action *action)
{
	struct kr_sfile_data *data = &file->data;

	switch (action->kind) {
	case KR_ROUND_WRITE:
		write_inline(file, action);
		break;
	case KR_ROUND_BEGIN:
		begin_round(data);
		data->intake = kr_intake_new(file, action->round, action->node);
		break;
	case KR_ROUND_SEND:
		/* The round may have been aborted by the action before; then the request may be gone too. */
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

/* Carries out what the machine wants; keeps the file alive while it has flushes. */
static void execute(struct kr_sfile *file)
{
	struct kr_sfile_data *data = &file->data;
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

/* --- events -------------------------------------------------------------------------------------------------------- */

void kr_flush_received(struct kr_sfile *file, uint64_t round)
{
	file->data.received_ns = kr_clock_ns();
	kr_rounds_received(&file->data.rounds, round);
	execute(file);
}

void kr_flush_broken(struct kr_sfile *file, uint64_t round)
{
	kr_rounds_broken(&file->data.rounds, round);
	execute(file);
}

void kr_flush_failed(struct kr_sfile *file, uint64_t round, int err)
{
	file->data.owner->counters.failed_rounds++;
	kr_rounds_failed(&file->data.rounds, round, err);
	execute(file);
}

void kr_flush_drained(struct kr_sfile *file, uint64_t round)
{
	end_changes(&file->data);
	kr_rounds_drained(&file->data.rounds, round);
	execute(file);
}

void kr_flush_session_lost(struct kr_data *data, struct kr_session *session)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		/* what this causes may end the next one's business, but this one is not idle before its last action */
		kr_rounds_lost(&item->rounds, session->node);
		execute(item->file);
	}
}

void kr_flush_update_hold(struct kr_data *data)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		update_hold(item);
		execute(item->file);
	}
}

/* What is asked is answered when its session ends; no new round begins. */
void kr_flush_stop(struct kr_data *data)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		kr_rounds_hold(&item->rounds, true);
		kr_rounds_broken(&item->rounds, item->rounds.round);
		execute(item->file);
	}
}

bool kr_flush_quiet(const struct kr_data *data)
{
	const struct kr_sfile_data *item;

	KR_LIST_FOR_EACH(item, &data->busy, busy) {
		if (item->rounds.state != KR_ROUND_IDLE)
			return false;
	}
	return true;
}

void kr_flush_tick(struct kr_data *data, uint64_t now_ns)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		struct kr_intake *intake = item->intake;

		if (!intake && item->rounds.state == KR_ROUND_CHAIN && now_ns >= item->received_ns + KR_DATA_STALL_MS * KR_NS_PER_MS) {
			kr_log_warn("flush round %llu: all has come, but a node does not say up to where: the round is run again",
				(unsigned long long)item->rounds.round);
			kr_flush_broken(item->file, item->rounds.round);
			continue;
		}
		if (!intake || intake->paused || intake->jobs || now_ns < intake->moved_ns + KR_DATA_STALL_MS * KR_NS_PER_MS)
			continue;
		kr_log_warn("flush round %llu: nothing has come for %d s; the round is run again", (unsigned long long)intake->round,
			KR_DATA_STALL_MS / 1000);
		kr_flush_broken(item->file, intake->round);
	}
}

/* --- gathering ------------------------------------------------------------------------------------------------------
 *
 * Writers of one file tend to flush together (a collective close).  So the first that asks for a chained round waits a
 * moment for the other holders of WRITE: together they make one ascending stream, alone each would leave gaps.
 */

static void update_hold(struct kr_sfile_data *data)
{
	kr_rounds_hold(&data->rounds, data->owner->collecting || data->owner->stopping || kr_link_linked(&data->gathering));
}

static size_t count_writers(const struct kr_sfile *file)
{
	const struct kr_lease_holder *holder;
	size_t count = 0;

	KR_LIST_FOR_EACH(holder, &file->leases.holders, link)
		count += (holder->kinds & KR_LEASE_WRITE) != 0;
	return count;
}

static void on_gather_timer(uv_timer_t *timer);

static void start_gather_timer(struct kr_data *data)
{
	uint64_t now = kr_clock_ns(), due;

	if (kr_list_empty(&data->gathering))
		return;
	due = KR_LIST_ENTRY(data->gathering.head.next, struct kr_sfile_data, gathering)->gather_ns;
	uv_timer_start(&data->gather_timer, on_gather_timer, due > now ? (due - now) / KR_NS_PER_MS + 1 : 0, 0);
}

static void end_gathering(struct kr_sfile_data *data)
{
	kr_list_remove(&data->gathering);
	update_hold(data);
	execute(data->file);
}

static void on_gather_timer(uv_timer_t *timer)
{
	struct kr_data *data = timer->data;
	struct kr_sfile_data *item, *after;
	uint64_t now = kr_clock_ns();

	KR_LIST_FOR_EACH_SAFE(item, after, &data->gathering, gathering) {
		if (item->gather_ns > now)
			break;
		end_gathering(item);
	}
	start_gather_timer(data);
}

/* Before the first flush of FILE is asked. */
static void maybe_gather(struct kr_sfile *file, const struct kr_round_ask *ask)
{
	struct kr_sfile_data *data = &file->data;

	if (ask->inlined || ask->single || ask->replay_round || !kr_rounds_idle(&data->rounds) || count_writers(file) < 2)
		return;
	data->gather_ns = kr_clock_ns() + KR_DATA_GATHER_MS * KR_NS_PER_MS;
	kr_list_append(&data->owner->gathering, &data->gathering);
	start_gather_timer(data->owner);
}

/* --- FLUSH --------------------------------------------------------------------------------------------------------- */

/* The bytes that a node has inline at the server are bounded as its jobs are: too many pause its connection. Not during
 * replays, which wait for a RECLAIM_DONE behind them. */
static void count_inline(struct kr_request *request)
{
	if (!request->data || request->server->data->collecting)
		return;
	request->state = request->session; /* counted; nothing to free */
	request->session->running++;
	kr_session_pressure(request->session);
}

/* 0; -EPROTO: the extents do not ascend, or are not what the data holds. */
static int check_inline(const struct kr_flush_request *msg, const struct kr_buf *data)
{
	uint64_t next = 0, bytes = 0;

	for (uint32_t i = 0; i < msg->extents.count; i++) {
		const struct kr_range *extent = &msg->extents.ranges[i];

		if (extent->length == 0 || extent->offset < next || extent->offset > (uint64_t)INT64_MAX - extent->length)
			return -EPROTO;
		next = extent->offset + extent->length;
		bytes += extent->length;
		if (bytes > KR_INLINE_MAX)
			return -EPROTO;
	}
	return bytes == (data ? data->length : 0) ? 0 : -EPROTO;
}

static int check(const struct kr_request *request)
{
	const struct kr_flush_request *msg = &request->msg.flush_request;

	if (msg->flags & ~(uint32_t)(KR_FLUSH_INLINE | KR_FLUSH_REPLAY))
		return -EPROTO;
	if (msg->flags & KR_FLUSH_INLINE)
		return check_inline(msg, request->data);
	return request->data || msg->extents.count ? -EPROTO : 0;
}

/* Whether the session's bytes may go in now (see FLUSH in msgs.def): what a node sends without the lease is late, or was on its
 * way when its leases went to others. */
static bool may_flush(const struct kr_request *request, const struct kr_sfile *file)
{
	uint32_t node = request->session->node;
	const struct kr_attachment *attachment;

	if (kr_lease_table_held(&file->leases, node) & KR_LEASE_WRITE || file->gone)
		return true;
	if (kr_lease_table_recalling(&file->leases, node) & KR_LEASE_READ)
		return true;
	if (!(request->msg.flush_request.flags & KR_FLUSH_REPLAY))
		return false;
	attachment = kr_attachment_find(file, request->session);
	return request->server->data->collecting || (attachment && attachment->replays);
}

static void run_refuse(struct kr_request *request)
{
	struct kr_attr attr;

	/* A file that is gone is so for everybody, and nothing to ask a lease of. */
	request->err = kr_export_getattr(request->server->export, &request->msg.flush_request.file, &attr);
	if (!request->err)
		request->err = -EAGAIN;
}

/* A replay of what is on stable storage already (synced.h): not to be applied again, over what may have come later. */
static bool is_synced(struct kr_data *data, const struct kr_flush_request *msg, uint64_t round)
{
	return round && kr_synced_judge(&data->synced, &msg->file, round, round) == KR_SYNCED_ALL;
}

static void handle_flush(struct kr_request *request)
{
	struct kr_data *data = request->server->data;
	const struct kr_flush_request *msg = &request->msg.flush_request;
	struct kr_round_ask ask = {
		.node = request->session->node,
		.order = request->session->name,
		.inlined = msg->flags & KR_FLUSH_INLINE,
		.single = request->session->ring_port == 0 || kr_trust_is_user(request->session),
		.replay_round = msg->flags & KR_FLUSH_REPLAY ? KR_MAX(msg->replay_round, 1) : 0,
		.token = request,
	};
	struct kr_sfile *file;
	int err = check(request);

	if (err) {
		kr_request_reply(request, err, NULL, NULL, 0);
		return;
	}
	if (!kr_opens_allow(request, &msg->file, KR_GRANT_WRITE))
		return;
	if (is_synced(data, msg, ask.replay_round)) {
		struct kr_flush_reply reply = { .round = ask.replay_round, .stable = 1 };

		kr_request_reply(request, 0, &reply, NULL, 0);
		return;
	}
	request->cancel = NULL; /* it is answered by its round, or when the session is lost */
	file = kr_sfile_get(request->server, &msg->file);
	if (!may_flush(request, file)) {
		kr_log_debug("node %s: FLUSH of a file without the lease", request->session->name);
		kr_request_run(request, run_refuse, kr_request_reply_job);
		kr_sfile_put(file);
		return;
	}
	maybe_gather(file, &ask);
	update_hold(&file->data);
	err = kr_rounds_ask(&file->data.rounds, &ask);
	if (err)
		kr_request_reply(request, err, NULL, NULL, 0);
	else if (ask.replay_round)
		data->replays++;
	else
		count_inline(request);
	execute(file);
	if (kr_link_linked(&file->data.gathering) && kr_rounds_waiting(&file->data.rounds) >= count_writers(file))
		end_gathering(&file->data); /* all are here */
	kr_sfile_put(file);
}

void kr_flush_init(struct kr_data *data)
{
	kr_list_init(&data->gathering);
	uv_timer_init(data->server->loop, &data->gather_timer);
	data->gather_timer.data = data;
	kr_server_on(data->server, KR_MSG_FLUSH, handle_flush, KR_HANDLER_IN_GRACE | KR_HANDLER_KEEP_REPLY);
}
