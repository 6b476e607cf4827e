#include "server/session/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/base/server.h"
#include "server/export/export.h"
#include "server/session/session.h"
#include "server/session/trust.h"

static size_t all_bytes; /* of all requests, without data */

static const struct kr_session_hooks *hooks_of(const struct kr_request *request)
{
	return &request->server->sessions->hooks;
}

static struct kr_request *find(const struct kr_session *session, uint64_t id)
{
	return KR_TABLE_FIND(struct kr_request, request, &session->requests, kr_hash_u64(id), by_id, request->id == id);
}

/* --- requests that a node sends behind a FLUSH (BEHIND, msgs.def) -------------------------------- */

/* A request waits for the latest FLUSH of its session and file; a FLUSH waits for no request, so there are no cycles.
 * Meanwhile the request has not begun: the node can withdraw it, and no node was asked to invalidate for it. */

/* The file whose FLUSH the request waits for; NULL: none. */
static const struct kr_fid *awaited_flush(const struct kr_request *request)
{
	if (request->type == KR_MSG_FSYNC && request->msg.fsync_request.flags & KR_FSYNC_BEHIND)
		return &request->msg.fsync_request.file;
	if (request->type == KR_MSG_SETATTR && request->msg.setattr_request.valid & KR_SET_BEHIND)
		return &request->msg.setattr_request.file;
	return NULL;
}

/* From the latest, which most requests follow. */
static struct kr_request *find_flush(const struct kr_session *session, const struct kr_fid *file)
{
	struct kr_link *link;

	for (link = session->flushes.head.prev; link != &session->flushes.head; link = link->prev) {
		struct kr_request *flush = KR_LIST_ENTRY(link, struct kr_request, after_flush.of_flushes);

		if (kr_fid_equal(&flush->msg.flush_request.file, file))
			return flush;
	}
	return NULL;
}

static void leave_flush(struct kr_request *request)
{
	kr_list_remove(&request->wait);
}

static void note_flush(struct kr_request *request)
{
	if (request->type == KR_MSG_FLUSH)
		kr_list_append(&request->session->flushes, &request->after_flush.of_flushes);
}

static void wait_for_flush(struct kr_request *request, void (*next)(struct kr_request *))
{
	const struct kr_fid *file = awaited_flush(request);
	struct kr_request *flush = file ? find_flush(request->session, file) : NULL;

	if (!flush) {
		next(request);
		return;
	}
	request->after_flush.next = next;
	request->cancel = leave_flush;
	kr_list_append(&flush->after_flush.waiting, &request->wait);
}

static void flush_answered(struct kr_request *flush, int err)
{
	struct kr_request *request;

	kr_list_remove(&flush->after_flush.of_flushes);
	while ((request = KR_LIST_POP(&flush->after_flush.waiting, struct kr_request, wait))) {
		request->cancel = NULL;
		if (err && request->type == KR_MSG_SETATTR)
			kr_request_reply(request, -EAGAIN, NULL, NULL, 0);
		else
			request->after_flush.next(request);
	}
}

static void flush_dropped(struct kr_request *request)
{
	kr_list_remove(&request->after_flush.of_flushes);
	while (kr_list_pop(&request->after_flush.waiting))
		; /* withdrawn with the session, too */
}

/* --- its memory ------------------------------------------------------------------------------- */

/* The arena of a decoded request is smaller than its fields. */
static size_t own_bytes(const struct kr_request *request)
{
	return sizeof(*request) + request->memory.fields_length;
}

size_t kr_request_bytes(void)
{
	return all_bytes;
}

static void free_request(struct kr_request *request)
{
	struct kr_session *session = request->session;

	assert(!request->job.running && !kr_link_linked(&request->wait));
	hooks_of(request)->request_ended(request);
	flush_dropped(request);
	hooks_of(request)->invalidation.drop(request);
	session->flow.held -= request->memory.held;
	all_bytes -= own_bytes(request);
	kr_table_remove(&session->requests, &request->by_id);
	if (request->state && request->free_state)
		request->free_state(request->state);
	hooks_of(request)->request_cache.over(request);
	kr_arena_fini(&request->memory.arena);
	kr_buf_put(request->data);
	free(request->memory.fields);
	free(request);
	kr_session_put(session);
}

/* --- its jobs -------------------------------------------------------------------------------- */

static void run_job(struct kr_brief *brief)
{
	struct kr_request *request = KR_CONTAINER_OF(brief, struct kr_request, job.brief);

	hooks_of(request)->request_cache.run(request);
}

static void job_done(struct kr_brief *brief)
{
	struct kr_request *request = KR_CONTAINER_OF(brief, struct kr_request, job.brief);
	struct kr_session *session = request->session;

	request->job.running = false;
	session->flow.running--;
	request->server->jobs--;
	kr_session_get(session);
	request->job.done(request);
	kr_session_pressure(session);
	kr_session_put(session);
}

/* Whether the jobs of such requests take longer, as a rule, than to wake a thread. */
static bool takes_long(uint16_t type)
{
	return type == KR_MSG_FALLOCATE || type == KR_MSG_COPY || type == KR_MSG_CONFLICT || type == KR_MSG_RECLAIM;
}

void kr_request_run(struct kr_request *request, void (*run)(struct kr_request *), void (*done)(struct kr_request *))
{
	assert(!request->job.running);
	hooks_of(request)->request_cache.begin(request);
	request->cancel = NULL;
	request->job.run = run;
	request->job.done = done;
	request->err = 0;
	request->job.running = true;
	request->session->flow.running++;
	request->server->jobs++;
	kr_brief_start(request->server->loop, &request->job.brief, takes_long(request->type), run_job, job_done);
	kr_session_pressure(request->session);
}

/* --- the reply -------------------------------------------------------------------------------- */

void kr_request_reply(struct kr_request *request, int err, const void *msg, const struct kr_slice *slices, size_t count)
{
	struct kr_session *session = request->session;
	bool keep = request->server->handlers[request->type].flags & KR_HANDLER_KEEP_REPLY;
	uint16_t flags;

	assert(err <= 0);
	if (err == -EMFILE) /* the daemon's limit, not the program's */
		err = -ENFILE;
	if (request->server->export)
		kr_export_failed(request->server->export, err);
	hooks_of(request)->request_cache.end(request, err);
	flags = hooks_of(request)->invalidation.reply(request, err, msg);
	if (!session->dead) {
		if (keep)
			kr_reply_cache_keep(&session->replies, kr_clock_ns(), request->id, request->type, err, msg);
		if (session->conn)
			kr_conn_reply(session->conn, request->type, request->id, flags, err, msg, slices, count);
	}
	request->server->sessions->requests++;
	kr_histogram_add(&request->server->sessions->took[request->type], kr_clock_ns() - request->arrived_ns);
	kr_session_get(session);
	flush_answered(request, err);
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
		return; /* it has begun: the node gets its reply */
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

/* Sends a kept reply again. */
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
	kr_list_init(&request->invalidation.unanswered);
	kr_list_init(&request->duplicate.repetitions);
	kr_list_init(&request->after_flush.waiting);
	kr_link_init(&request->after_flush.of_flushes);
	kr_table_insert(&session->requests, &request->by_id, kr_hash_u64(request->id));
	if (frame->header.fields_length) {
		request->memory.fields = kr_xmalloc(frame->header.fields_length);
		memcpy(request->memory.fields, frame->fields, frame->header.fields_length);
	}
	if (frame->data)
		request->data = kr_buf_get(frame->data);
	request->memory.fields_length = frame->header.fields_length;
	all_bytes += own_bytes(request);
	request->memory.held = own_bytes(request) + (frame->data ? frame->data->length : 0);
	session->flow.held += request->memory.held;
	return request;
}

/* Requests outside the node's queue: their ids are beyond those that wait there. */
static bool is_outside(uint16_t type)
{
	return type == KR_MSG_HELLO || type == KR_MSG_PING || type == KR_MSG_BACKLOG;
}

/* Whether an earlier session of the node may have had this request executed already. */
static bool maybe_done(struct kr_session *session, const struct kr_frame_header *header)
{
	if (header->flags & KR_FRAME_RESEND)
		return session->recovery.successor && header->id < session->recovery.fresh_id;
	if (!is_outside(header->type) && header->id < session->recovery.fresh_id)
		session->recovery.fresh_id = header->id;
	return false;
}

static bool repetition(struct kr_session *session, const struct kr_frame_header *header)
{
	const struct kr_kept_reply *kept;

	if (!(header->flags & KR_FRAME_RESEND))
		return false;
	if (find(session, header->id))
		return true; /* unanswered: its reply goes to the new connection */
	kept = kr_reply_cache_find(&session->replies, header->id);
	if (!kept)
		return false;
	repeat_reply(session, kept);
	kr_reply_cache_again(&session->replies, kr_clock_ns(), header->id);
	return true;
}

/* Frames that only a broken or hostile peer sends: the server closes the connection. */
static const char *violation(const struct kr_session *session, const struct kr_frame_header *header)
{
	if (header->flags & KR_FRAME_ONEWAY)
		return "sent a frame that nobody asked for";
	if (!(header->flags & KR_FRAME_RESEND) && find(session, header->id))
		return "used a request id twice";
	if (session->requests.count + session->callbacks.abandoned_count >= KR_SESSION_REQUESTS_MAX)
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
	if (!request->duplicate.maybe_executed || !hooks_of(request)->request_cache.settled(request))
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
	wait_for_flush(request, note_and_handle);
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
	request->duplicate.maybe_executed = maybe_done(session, header);
	if (kr_msg_decode(request->type, false, request->memory.fields, header->fields_length, &request->msg,
		    &request->memory.arena)) {
		kr_log_debug("node %s: %s request cannot be decoded", session->name, kr_msg_name(request->type));
		kr_request_reply(request, -EPROTO, NULL, NULL, 0);
		return;
	}
	note_flush(request);
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
