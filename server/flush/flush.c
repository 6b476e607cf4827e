/* FLUSH: the bytes of a node ask for a round of their file (see flush.h, msgs.def).
 *
 * Loop thread.  What becomes of them then: flush_gather.c (waiting for others' bytes), flush_round.c (the running
 * round) and flush_events.c (what ends or breaks it).
 */
#include "server/flush/flush_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/export/export.h"
#include "server/flush/round_stream.h"
#include "server/leases/invalidation.h"
#include "server/session/trust.h"

static void file_created(struct kr_sfile *file)
{
	struct kr_data *owner = file->server->data;
	struct kr_sfile_data *data = kr_xcalloc(1, sizeof(*data));

	file->data = data;
	data->owner = owner;
	data->file = file;
	data->mtime_rounds.sec = INT64_MIN;
	kr_rounds_init(&data->rounds, kr_data_next_round, owner);
	kr_rounds_hold(&data->rounds, owner && owner->collecting);
	kr_link_init(&data->busy);
	kr_link_init(&data->gathering);
	kr_list_init(&data->pipelines);
	kr_stable_file_init(&data->stable);
	data->stable.others_round = owner ? owner->forgotten_round : 0;
}

static void file_destroyed(struct kr_sfile *file)
{
	struct kr_sfile_data *data = file->data;

	kr_rounds_fini(&data->rounds);
	kr_list_remove(&data->busy);
	kr_list_remove(&data->gathering);
	kr_round_stream_free(data->round_stream);
	free(data->parts);
	if (data->owner)
		data->owner->forgotten_round = KR_MAX(data->owner->forgotten_round, data->stable.writer_round);
	kr_stable_file_fini(&data->stable);
	free(data);
}

/* Replays are collected until all nodes have sent theirs, so nothing holds them up: there is room for some of their
 * bytes.  Others stay at their node, as if it had not sent them, and are asked for by ROUND. */
static bool has_room(const struct kr_data *data, const struct kr_request *request)
{
	return !request->data || data->replay_bytes + request->held <= KR_DATA_REPLAY_BYTES;
}

/* Of all nodes, with the replays: then it is counted there. */
static bool may_wait_uncounted(struct kr_request *request, const struct kr_sfile *file)
{
	struct kr_data *data = request->server->data;

	if (!kr_stable_restores(file) || !has_room(data, request))
		return false;
	if (request->data) {
		request->state = data; /* nothing to free */
		data->replay_bytes += request->data->length;
	}
	kr_request_unhold(request);
	return true;
}

/* The bytes that a node has inline at the server are bounded as its jobs are: too many pause its connection. Not while
 * rounds wait for what comes behind them: a RECLAIM_DONE, or the answer to UNSTABLE, as long as there is room. */
static void count_inline(struct kr_request *request, const struct kr_sfile *file)
{
	if (may_wait_uncounted(request, file) || !request->data || request->server->data->collecting)
		return;
	request->state = request->session; /* counted; nothing to free */
	request->session->running++;
	kr_session_pressure(request->session);
}

void kr_flush_uncount(struct kr_request *request)
{
	struct kr_data *data = request->server->data;

	if (request->state == data)
		data->replay_bytes -= request->data->length;
	else if (request->state)
		request->session->running--;
}

static void drop_bytes(struct kr_request *request)
{
	request->msg.flush_request.extents = (struct kr_ranges){0};
	kr_buf_put(request->data);
	request->data = NULL;
	free(request->fields);
	request->fields = NULL;
	kr_arena_fini(&request->arena);
}

static void count_replay(struct kr_request *request)
{
	struct kr_data *data = request->server->data;

	data->replays++;
	data->replay_bytes += request->data ? request->data->length : 0;
	kr_request_unhold(request);
}

/* 0; -EPROTO: the extents do not ascend, or are not what the data holds. */
static int check_inline(const struct kr_flush_request *msg, const struct kr_buf *data)
{
	uint64_t next = 0, bytes = 0;

	for (uint32_t i = 0; i < msg->extents.count; i++) {
		const struct kr_range *extent = &msg->extents.ranges[i];

		if (extent->length == 0 || extent->offset < next ||
			extent->offset > (uint64_t)INT64_MAX - extent->length)
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

uint64_t kr_flush_order(const struct kr_flush_request *msg)
{
	return msg->flags & KR_FLUSH_REPLAY ? KR_MAX(msg->replay_order, 1) : 0;
}

/* Others' later replays are there since a former process of this boot.  What its node sends behind it is refused as
 * well: what is applied of a journal is all up to some number. So that is remembered also when the session has as many
 * files as it may: these are in the log of replays, which is bounded. */
static bool is_overtaken(const struct kr_request *request, struct kr_sfile *file)
{
	const struct kr_session *session = request->session;
	struct kr_attachment *attachment = kr_attachment_find(file, session);

	if (attachment && attachment->overtaken)
		return true;
	if (kr_replayed_others(&request->server->data->replayed, &file->fid, session->node_id) <=
		kr_flush_order(&request->msg.flush_request))
		return false;
	kr_attachment_get(file, request->session)->overtaken = true;
	return true;
}

/* Replays come before what anybody else has asked for, and keep readers out meanwhile: not of a node that merely says
 * so.  What came while they were collected had its place among those of all nodes; what comes later only goes in after
 * a RECLAIM that has found that nobody is covered by it. */
static bool may_replay(const struct kr_request *request, struct kr_sfile *file)
{
	const struct kr_attachment *attachment;

	if (request->server->data->collecting)
		return !is_overtaken(request, file);
	if (kr_stable_may_restore(file, request->session->node))
		return true;
	attachment = kr_attachment_find(file, request->session);
	return attachment && attachment->replays;
}

/* Whether the session's bytes may go in now (see FLUSH in msgs.def): what a node sends without the lease is late, or
 * was on its way when its leases went to others. */
static bool may_flush(const struct kr_request *request, struct kr_sfile *file)
{
	uint32_t node = request->session->node;

	if (file->gone)
		return true;
	if (request->msg.flush_request.flags & KR_FLUSH_REPLAY)
		return may_replay(request, file);
	return kr_lease_table_held(&file->leases, node) & KR_LEASE_WRITE ||
		kr_lease_table_recalling(&file->leases, node) & KR_LEASE_READ;
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
static bool is_synced(struct kr_data *data, const struct kr_flush_request *msg)
{
	uint64_t round = msg->replay_round;

	return round && kr_synced_judge(&data->synced, &msg->file, round, round) == KR_SYNCED_ALL;
}

/* A replay that was applied in this boot (perhaps by a former instance: replayed.h), whose answer the node did not live
 * to hear: later rounds of others may be there by now.  0: it is none; else a round that it is in. */
static uint64_t applied_anew(struct kr_data *data, const struct kr_request *request)
{
	const struct kr_flush_request *msg = &request->msg.flush_request;
	const struct kr_applied_entry *entry =
		kr_data_applied_anew(data, &msg->file, request->session->node_id, msg->seq);

	return entry ? entry->round : 0;
}

/* True: it has been answered, since what it brings is there. */
static bool replayed_in_vain(struct kr_data *data, struct kr_request *request)
{
	struct kr_flush_reply reply = {0};

	reply.stable = is_synced(data, &request->msg.flush_request);
	reply.round = reply.stable ? request->msg.flush_request.replay_round : applied_anew(data, request);
	if (reply.round)
		kr_request_reply(request, 0, &reply, NULL, 0);
	return reply.round != 0;
}

static void note_came(struct kr_data *data, const struct kr_request *request)
{
	struct kr_applied_flush flush = {.incarnation = request->session->incarnation, .number = request->id};

	memcpy(flush.node_id, request->session->node_id, sizeof flush.node_id);
	kr_applied_flush_came(&data->applied, &request->msg.flush_request.file, &flush);
}

/* There is no room for it: later ones, for which there may be, would go in before it. */
static void refuse_asked(struct kr_request *request, struct kr_sfile *file, int err)
{
	struct kr_attachment *attachment = kr_attachment_find(file, request->session);

	if (attachment && request->msg.flush_request.flags & KR_FLUSH_REPLAY)
		attachment->replays = false;
	kr_request_reply(request, err, NULL, NULL, 0);
}

static void handle_flush(struct kr_request *request)
{
	struct kr_data *data = request->server->data;
	const struct kr_flush_request *msg = &request->msg.flush_request;
	struct kr_round_ask ask = {
		.node = request->session->node,
		.order = request->session->name,
		.ring = request->session->ring,
		.inlined = msg->flags & KR_FLUSH_INLINE,
		.single = request->session->ring_port == 0 || kr_trust_is_user(request->session),
		.replay_round = kr_flush_order(msg),
		.token = request,
	};
	struct kr_sfile *file;
	int err = check(request);

	if (err) {
		kr_request_reply(request, err, NULL, NULL, 0);
		return;
	}
	if (!kr_open_rights_allow(request, &msg->file, KR_GRANT_WRITE))
		return;
	if (ask.replay_round && replayed_in_vain(data, request))
		return;
	request->cancel = NULL; /* it is answered by its round, or when the session is lost */
	file = kr_sfile_get(request->server, &msg->file);
	if (!may_flush(request, file)) {
		kr_log_debug("node %s: FLUSH of a file without the lease", request->session->name);
		kr_request_run(request, run_refuse, kr_request_reply_job);
		kr_sfile_put(file);
		return;
	}
	if (ask.replay_round && kr_stable_may_restore(file, ask.node))
		request->msg.flush_request.flags |= KR_FLUSH_RESTORE;
	if (ask.replay_round && !has_room(data, request)) {
		drop_bytes(request);
		ask.inlined = false;
	}
	if (!ask.replay_round)
		note_came(data, request);
	kr_flush_gather(file, &ask);
	kr_flush_hold(file->data);
	err = kr_rounds_ask(&file->data->rounds, &ask);
	if (err)
		refuse_asked(request, file, err);
	else if (ask.replay_round)
		count_replay(request);
	else
		count_inline(request, file);
	kr_flush_execute(file);
	kr_flush_gathered(file);
	kr_sfile_put(file);
}

/* Replays come before anybody is served, and in an order that must be kept. */
static void flush_changes(struct kr_request *request)
{
	if (!(request->msg.flush_request.flags & KR_FLUSH_REPLAY))
		kr_invalidation_change(request, &request->msg.flush_request.file);
}

static bool flush_asked(const struct kr_sfile *file, uint32_t node)
{
	return kr_rounds_asked_by(&file->data->rounds, node);
}

void kr_flush_init(struct kr_data *data)
{
	data->server->files->hooks.created = file_created;
	data->server->files->hooks.destroyed = file_destroyed;
	data->server->files->hooks.flush_asked = flush_asked;
	kr_flush_gather_init(data);
	kr_server_on(data->server, KR_MSG_FLUSH, handle_flush, KR_HANDLER_IN_GRACE | KR_HANDLER_KEEP_REPLY);
	kr_invalidation_on(data->server, KR_MSG_FLUSH, flush_changes, NULL);
}
