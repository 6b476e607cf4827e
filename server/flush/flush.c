/* FLUSH: a node asks for a round of a file with its bytes (see flush.h, msgs.def).
 *
 * Loop thread.  flush_round.c carries the running round out.  The end of this file tells the round machine of streams,
 * ended sessions and time.
 */
#include "server/flush/flush_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/export/export.h"
#include "server/flush/round_stream.h"
#include "server/leases/invalidation.h"
#include "server/session/trust.h"

/* Tells the machine of the file whether its next round may begin. */
static void hold_rounds(struct kr_sfile_data *data)
{
	kr_rounds_hold(
		&data->rounds, data->owner->stopping || data->commit.rewriting || kr_link_linked(&data->gathering));
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
	hold_rounds(data);
	kr_flush_execute(data->file);
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

/* Before ASK, which may be the first flush of FILE: may begin to wait for the other writers, KR_DATA_GATHER_MS at
 * most.  Writers tend to flush together (a collective close).  Together they make one ascending stream; alone each
 * would leave gaps. */
static void begin_gathering(struct kr_sfile *file, const struct kr_round_ask *ask)
{
	struct kr_sfile_data *data = file->data;

	if (ask->inlined || ask->single || !kr_rounds_idle(&data->rounds) || kr_link_linked(&data->gathering) ||
		count_writers(file) < 2)
		return;
	data->gather_ns = kr_clock_ns() + KR_DATA_GATHER_MS * KR_NS_PER_MS;
	kr_list_append(&data->owner->gathering, &data->gathering);
	start_gather_timer(data->owner);
}

/* A node has asked for a flush of FILE: if all writers have, the wait is over. */
static void end_gathering_if_complete(struct kr_sfile *file)
{
	if (kr_link_linked(&file->data->gathering) && kr_rounds_waiting(&file->data->rounds) >= count_writers(file))
		end_gathering(file->data);
}

static void init_gathering(struct kr_data *data)
{
	kr_list_init(&data->gathering);
	uv_timer_init(data->server->loop, &data->gather_timer);
	data->gather_timer.data = data;
}

/* The number of the next round: ascends over restarts too. */
static uint64_t next_round(void *data_pointer)
{
	struct kr_data *data = data_pointer;

	return ++data->last_round;
}

static void file_created(struct kr_sfile *file)
{
	struct kr_data *owner = file->server->data;
	struct kr_sfile_data *data = kr_xcalloc(1, sizeof(*data));

	file->data = data;
	data->owner = owner;
	data->file = file;
	data->mtime_rounds.sec = INT64_MIN;
	kr_rounds_init(&data->rounds, next_round, owner);
	kr_link_init(&data->busy);
	kr_link_init(&data->gathering);
	kr_list_init(&data->pipelines);
	kr_commit_file_init(file);
}

static void file_destroyed(struct kr_sfile *file)
{
	struct kr_sfile_data *data = file->data;

	assert(kr_list_empty(&data->commit.writers)); /* uncommitted writers hold the file */
	kr_rounds_fini(&data->rounds);
	kr_list_remove(&data->busy);
	kr_list_remove(&data->gathering);
	kr_round_stream_free(data->round_stream);
	free(data->parts);
	free(data);
}

/* Bounds the inline bytes of a node at the server, as its jobs are: too many pause its connection. */
static void count_inline(struct kr_request *request)
{
	if (!request->data)
		return;
	request->state = request->session; /* counted; nothing to free */
	request->session->flow.running++;
	kr_session_pressure(request->session);
}

void kr_flush_uncount(struct kr_request *request)
{
	if (request->state)
		request->session->flow.running--;
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

	if (msg->flags & ~(uint32_t)(KR_FLUSH_INLINE | KR_FLUSH_RESEND))
		return -EPROTO;
	if (msg->flags & KR_FLUSH_INLINE)
		return check_inline(msg, request->data);
	return request->data || msg->extents.count ? -EPROTO : 0;
}

/* Whether the session's bytes may go in now (see FLUSH in msgs.def).  A FLUSH without the lease is late, or was on
 * its way when the node's leases went to other nodes. */
static bool may_flush(const struct kr_session *session, const struct kr_sfile *file)
{
	const struct kr_attachment *attachment = kr_attachment_find(file, session);

	if (file->gone || kr_lease_table_held(&file->leases, session->node) & KR_LEASE_WRITE ||
		kr_lease_table_recalling(&file->leases, session->node) & KR_LEASE_READ)
		return true;
	return kr_commit_is_writer(file, session) && !(attachment && attachment->cover.lost);
}

static void run_refuse(struct kr_request *request)
{
	struct kr_attr attr;

	/* A file that is gone needs no lease. */
	request->err = kr_export_getattr(request->server->export, &request->msg.flush_request.file, &attr);
	if (!request->err)
		request->err = -EAGAIN;
}

static void handle_flush(struct kr_request *request)
{
	const struct kr_flush_request *msg = &request->msg.flush_request;
	struct kr_round_ask ask = {
		.node = request->session->node,
		.order = request->session->name,
		.ring = request->session->ring.name,
		.inlined = msg->flags & KR_FLUSH_INLINE,
		.single = request->session->ring.port == 0 || kr_trust_is_user(request->session),
		.token = request,
	};
	struct kr_sfile *file;
	int err = check(request);

	if (err) {
		kr_request_reply(request, err, NULL, NULL, 0);
		return;
	}
	if (!kr_open_rights_allow(request, &msg->file, KR_OPEN_RIGHT_WRITE))
		return;
	request->cancel = NULL; /* its round answers it, or the end of the session */
	file = kr_sfile_get(request->server, &msg->file);
	if (!may_flush(request->session, file)) {
		kr_log_debug("node %s: FLUSH of a file without the lease", request->session->name);
		kr_request_run(request, run_refuse, kr_request_reply_job);
		kr_sfile_put(file);
		return;
	}
	begin_gathering(file, &ask);
	hold_rounds(file->data);
	err = kr_rounds_ask(&file->data->rounds, &ask);
	if (err)
		kr_request_reply(request, err, NULL, NULL, 0);
	else
		count_inline(request);
	kr_flush_execute(file);
	end_gathering_if_complete(file);
	kr_sfile_put(file);
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
	init_gathering(data);
	kr_server_on(data->server, KR_MSG_FLUSH, handle_flush, KR_HANDLER_IN_GRACE | KR_HANDLER_KEEP_REPLY);
	kr_invalidation_changes(data->server, KR_MSG_FLUSH, KR_FID_OFFSET(flush_request.file));
}

/* --- running rounds: streams, sessions that end, time ------------------------------------------ */

void kr_flush_received(struct kr_sfile *file, uint64_t round)
{
	file->data->received_ns = kr_clock_ns();
	kr_rounds_received(&file->data->rounds, round);
	kr_flush_execute(file);
}

void kr_flush_broken(struct kr_sfile *file, uint64_t round)
{
	kr_rounds_broken(&file->data->rounds, round);
	kr_flush_execute(file);
}

void kr_flush_failed(struct kr_sfile *file, uint64_t round, int err)
{
	file->data->owner->counters.failed_rounds++;
	kr_rounds_failed(&file->data->rounds, round, err);
	kr_flush_execute(file);
}

void kr_flush_drained(struct kr_sfile *file, uint64_t round)
{
	if (file->data->changing)
		kr_commit_applied_in_part(file, round);
	kr_flush_broken_off(file->data);
	kr_rounds_drained(&file->data->rounds, round);
	kr_flush_execute(file);
}

void kr_flush_session_lost(struct kr_data *data, struct kr_session *session)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		/* this may end the next one's work, but this one is not idle before its last action */
		kr_rounds_lost(&item->rounds, session->node);
		kr_flush_execute(item->file);
	}
}

void kr_flush_update_hold_of(struct kr_sfile *file)
{
	hold_rounds(file->data);
	kr_flush_execute(file);
}

/* Asked flushes are answered when their session ends; no new round begins. */
void kr_flush_stop(struct kr_data *data)
{
	struct kr_sfile_data *item, *after;

	KR_LIST_FOR_EACH_SAFE(item, after, &data->busy, busy) {
		kr_rounds_hold(&item->rounds, true);
		kr_rounds_broken(&item->rounds, item->rounds.round);
		kr_flush_execute(item->file);
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
		struct kr_round_stream *round_stream = item->round_stream;

		if (!round_stream && item->rounds.state == KR_ROUND_CHAIN &&
			now_ns >= item->received_ns + KR_DATA_STALL_MS * KR_NS_PER_MS) {
			kr_log_warn("flush round %llu: all has come, but a node does not say up to where: "
				    "the round is run again",
				(unsigned long long)item->rounds.round);
			kr_flush_broken(item->file, item->rounds.round);
			continue;
		}
		if (!round_stream || round_stream->paused || round_stream->jobs ||
			now_ns < round_stream->moved_ns + KR_DATA_STALL_MS * KR_NS_PER_MS)
			continue;
		if (!item->file->gone) /* writers of a removed file discard: nothing comes */
			kr_log_warn("flush round %llu: nothing has come for %d s; the round is run again",
				(unsigned long long)round_stream->round, KR_DATA_STALL_MS / 1000);
		kr_flush_broken(item->file, round_stream->round);
	}
}
