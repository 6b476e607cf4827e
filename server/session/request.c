/* The life of a request: see request.h. */
#include "server/session/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/session/after_flush.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/session/trust.h"

static size_t all_bytes; /* of all requests, see kr_request_bytes */

static const struct kr_session_hooks *hooks_of(const struct kr_request *request)
{
	return &request->server->sessions->hooks;
}

static bool match_id(const struct kr_table_link *link, const void *key)
{
	return KR_CONTAINER_OF(link, struct kr_request, by_id)->id == *(const uint64_t *)key;
}

static struct kr_request *find(const struct kr_session *session, uint64_t id)
{
	struct kr_table_link *link = kr_table_find(&session->requests, kr_hash_u64(id), match_id, &id);

	return link ? KR_CONTAINER_OF(link, struct kr_request, by_id) : NULL;
}

/* What decoding adds is less than the fields. */
static size_t own_bytes(const struct kr_request *request)
{
	return sizeof(*request) + request->fields_length;
}

size_t kr_request_bytes(void)
{
	return all_bytes;
}

void kr_request_unhold(struct kr_request *request)
{
	request->session->held -= request->held;
	request->held = 0;
}

static void free_request(struct kr_request *request)
{
	struct kr_session *session = request->session;

	assert(!request->in_pool && !kr_link_linked(&request->wait));
	hooks_of(request)->request_ended(request);
	kr_after_flush_drop(request);
	hooks_of(request)->invalidation.drop(request);
	kr_request_unhold(request);
	all_bytes -= own_bytes(request);
	kr_table_remove(&session->requests, &request->by_id);
	if (request->state && request->free_state)
		request->free_state(request->state);
	hooks_of(request)->request_cache.over(request);
	kr_arena_fini(&request->arena);
	kr_buf_put(request->data);
	free(request->fields);
	free(request);
	kr_session_put(session);
}

/* --- the pool --------------------------------------------------------------------------------- */

static void run_in_pool(uv_work_t *work)
{
	struct kr_request *request = KR_CONTAINER_OF(work, struct kr_request, work);

	hooks_of(request)->request_cache.run(request);
}

static void after_pool(uv_work_t *work, int status)
{
	struct kr_request *request = KR_CONTAINER_OF(work, struct kr_request, work);
	struct kr_session *session = request->session;

	assert(status == 0); /* nobody cancels */
	(void)status;
	request->in_pool = false;
	session->running--;
	request->server->jobs--;
	kr_session_get(session);
	request->done(request);
	kr_session_pressure(session);
	kr_session_put(session);
}

void kr_request_run(struct kr_request *request, void (*run)(struct kr_request *), void (*done)(struct kr_request *))
{
	int err;

	assert(!request->in_pool);
	hooks_of(request)->request_cache.begin(request);
	request->cancel = NULL;
	request->run = run;
	request->done = done;
	request->err = 0;
	request->in_pool = true;
	request->session->running++;
	request->server->jobs++;
	err = uv_queue_work(request->server->loop, &request->work, run_in_pool, after_pool);
	assert(err == 0);
	(void)err;
	kr_session_pressure(request->session);
}

/* --- the reply -------------------------------------------------------------------------------- */

void kr_request_reply(struct kr_request *request, int err, const void *msg, const struct kr_slice *slices, size_t count)
{
	struct kr_session *session = request->session;
	bool keep = request->server->handlers[request->type].flags & KR_HANDLER_KEEP_REPLY;
	uint16_t flags;

	assert(err <= 0);
	hooks_of(request)->request_cache.end(request, err);
	flags = hooks_of(request)->invalidation.reply(request, err, msg);
	if (!session->dead) {
		if (keep)
			kr_reply_cache_keep(&session->replies, kr_clock_ns(), request->id, request->type, err, msg);
		if (session->conn)
			kr_conn_reply(session->conn, request->type, request->id, flags, err, msg, slices, count);
	}
	request->server->sessions->requests++;
	kr_session_get(session);
	kr_after_flush_answered(request, err);
	free_request(request);
	kr_session_pressure(session);
	kr_session_put(session);
}

void kr_request_drop(struct kr_request *request)
{
	request->server->sessions->requests++;
	free_request(request);
}

void kr_request_reply_job(struct kr_request *request)
{
	kr_request_reply(request, request->err, &request->reply, NULL, 0);
}

static void hurry(struct kr_request *request)
{
	void (*go_on)(struct kr_request *) = request->hurry;

	request->hurry = NULL;
	go_on(request);
}

void kr_request_withdraw(struct kr_request *request, bool ended)
{
	void (*cancel)(struct kr_request *) = request->cancel;

	if (!cancel && ended)
		hooks_of(request)->request_cache.outlives(request);
	if (!cancel && ended && request->hurry)
		hurry(request);
	if (!cancel)
		return; /* it has begun, and will be answered as if nothing had happened */
	request->cancel = NULL;
	cancel(request);
	if (ended)
		free_request(request);
	else
		kr_request_reply(request, -EINTR, NULL, NULL, 0);
}

/* --- arrival ---------------------------------------------------------------------------------- */

static void leave_waiting(struct kr_request *request)
{
	kr_list_remove(&request->wait);
}

/* Says again what was said before. */
static void repeat_reply(struct kr_session *session, const struct kr_kept_reply *kept)
{
	union kr_any_msg msg;
	struct kr_arena arena = {0};
	int err = kept->err;

	memset(&msg, 0, sizeof(msg));
	if (err == 0 && kr_msg_decode(kept->type, true, kept->fields, kept->length, &msg, &arena))
		err = -EIO;
	kr_conn_reply(session->conn, kept->type, kept->id, 0, err, &msg, NULL, 0);
	kr_arena_fini(&arena);
}

static bool allowed(const struct kr_server *server, uint16_t type)
{
	enum kr_direction direction;

	if (type >= KR_SERVER_TYPES || !kr_msg_known(type, &direction))
		return false;
	return (direction == KR_DIRECTION_UP || direction == KR_DIRECTION_TOOL) && server->handlers[type].handle;
}

static struct kr_request *request_new(struct kr_session *session, const struct kr_frame *frame)
{
	struct kr_request *request = kr_xcalloc(1, sizeof(*request));

	request->server = session->server;
	request->session = kr_session_get(session);
	request->type = frame->header.type;
	request->id = frame->header.id;
	request->arrived_ns = kr_clock_ns();
	request->connection = session->connections;
	kr_list_append(&request->server->sessions->unanswered, &request->of_all);
	kr_link_init(&request->wait);
	kr_list_init(&request->change.forgets);
	kr_list_init(&request->repetitions);
	kr_list_init(&request->behind);
	kr_link_init(&request->of_flushes);
	kr_table_insert(&session->requests, &request->by_id, kr_hash_u64(request->id));
	if (frame->header.fields_length) {
		request->fields = kr_xmalloc(frame->header.fields_length);
		memcpy(request->fields, frame->fields, frame->header.fields_length);
	}
	if (frame->data)
		request->data = kr_buf_get(frame->data);
	request->fields_length = frame->header.fields_length;
	all_bytes += own_bytes(request);
	request->held = own_bytes(request) + (frame->data ? frame->data->length : 0);
	session->held += request->held;
	return request;
}

/* Asked outside the node's queue of requests: with a number beyond those that wait there. */
static bool is_outside(uint16_t type)
{
	return type == KR_MSG_HELLO || type == KR_MSG_PING || type == KR_MSG_BACKLOG || type == KR_MSG_LIMITS;
}

/* Whether an earlier session of the node may have had this request executed already. */
static bool maybe_done(struct kr_session *session, const struct kr_frame_header *header)
{
	if (header->flags & KR_FRAME_RESEND)
		return session->successor && header->id < session->fresh_id;
	if (!is_outside(header->type) && header->id < session->fresh_id)
		session->fresh_id = header->id;
	return false;
}

static bool repetition(struct kr_session *session, const struct kr_frame_header *header)
{
	const struct kr_kept_reply *kept;

	if (!(header->flags & KR_FRAME_RESEND))
		return false;
	if (find(session, header->id))
		return true; /* still at it: its reply goes to the new connection */
	kept = kr_reply_cache_find(&session->replies, header->id);
	if (!kept)
		return false;
	repeat_reply(session, kept);
	kr_reply_cache_again(&session->replies, kr_clock_ns(), header->id);
	return true;
}

/* What only a broken or hostile peer sends; the connection cannot be trusted any more. */
static const char *violation(const struct kr_session *session, const struct kr_frame_header *header)
{
	if (header->flags & KR_FRAME_ONEWAY)
		return "sent a frame that nobody asked for";
	if (!(header->flags & KR_FRAME_RESEND) && find(session, header->id))
		return "used a request id twice";
	if (session->requests.count + session->strays >= KR_SESSION_REQUESTS_MAX)
		return "has too many unanswered requests";
	return NULL;
}

void kr_request_wait_for_grace(struct kr_request *request)
{
	request->cancel = leave_waiting;
	kr_list_append(&request->server->sessions->grace.waiting, &request->wait);
}

void kr_request_handle(struct kr_request *request)
{
	if (!request->maybe_done || !hooks_of(request)->request_cache.settled(request))
		request->server->handlers[request->type].handle(request);
}

static void note_and_handle(struct kr_request *request)
{
	hooks_of(request)->invalidation.wait(request, kr_request_handle);
}

void kr_request_dispatch(struct kr_request *request)
{
	const struct kr_handler *handler = &request->server->handlers[request->type];

	if (request->server->sessions->grace.active && !(handler->flags & KR_HANDLER_IN_GRACE)) {
		kr_request_wait_for_grace(request);
		return;
	}
	kr_after_flush_wait(request, note_and_handle);
}

void kr_request_arrived(struct kr_session *session, const struct kr_frame *frame)
{
	const struct kr_frame_header *header = &frame->header;
	const char *wrong = violation(session, header);
	struct kr_request *request;
	int err;

	if (wrong) {
		kr_log_warn("node %s (%s) %s: connection closed", session->name, kr_conn_peer(session->conn), wrong);
		kr_conn_close(session->conn, false);
		return;
	}
	if (!allowed(session->server, header->type)) {
		kr_conn_reply(session->conn, header->type, header->id, 0, -EPROTO, NULL, NULL, 0);
		return;
	}
	if (repetition(session, header))
		return;
	session->server->sessions->arrived[header->type]++;
	request = request_new(session, frame);
	request->maybe_done = maybe_done(session, header);
	if (kr_msg_decode(
		    request->type, false, request->fields, header->fields_length, &request->msg, &request->arena)) {
		kr_log_debug("node %s: %s request cannot be decoded", session->name, kr_msg_name(request->type));
		kr_request_reply(request, -EPROTO, NULL, NULL, 0);
		return;
	}
	kr_after_flush_arrived(request);
	err = kr_trust_restrict(session, request->type, &request->msg);
	if (err) {
		kr_log_debug("node %s: %s refused: %s", session->name, kr_msg_name(request->type), kr_fail_reason());
		kr_request_reply(request, err, NULL, NULL, 0);
		return;
	}
	kr_request_dispatch(request);
}

struct kr_request *kr_request_find(const struct kr_session *session, uint64_t id)
{
	return find(session, id);
}
