/* See rpc.h.  Here are the calls; rpc_link.c has the connection.
 *
 * A call lives in rpc->calls from its submission to its reply.  A program may give up a call that the server may have
 * begun.  That call stays there without a callback, so that the rpc can handle the reply and end what the call opened.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/session/rpc_priv.h"
#include "fuse/base/loop.h"
#include "fuse/base/options.h"

struct kr_call *kr_call_new(uint16_t type, const void *msg, const struct kr_slice *slices, size_t count, int *ret_err)
{
	struct kr_call *call = calloc(1, sizeof(*call));
	int err = -ENOMEM;

	if (!call)
		goto fail;
	call->type = type;
	kr_writer_init(&call->fields);
	err = kr_msg_encode(type, false, msg, &call->fields);
	if (!err)
		err = kr_msg_decode(type, false, call->fields.bytes, call->fields.length, &call->asked, &call->arena);
	if (err < 0)
		goto fail;
	if (count) {
		call->slices = calloc(count, sizeof(*slices));
		if (!call->slices) {
			err = -ENOMEM;
			goto fail;
		}
		for (size_t i = 0; i < count; i++) {
			call->slices[i] = slices[i];
			kr_buf_get(slices[i].buf);
		}
		call->count = count;
	}
	return call;
fail:
	kr_call_free(call);
	*ret_err = err;
	return NULL;
}

void kr_call_free(struct kr_call *call)
{
	if (!call)
		return;
	kr_arena_fini(&call->arena);
	kr_writer_fini(&call->fields);
	for (size_t i = 0; i < call->count; i++)
		kr_buf_put(call->slices[i].buf);
	free(call->slices);
	free(call);
}

static struct kr_call *find_call(struct kr_rpc *rpc, uint64_t id)
{
	return KR_TABLE_FIND(struct kr_call, call, &rpc->by_id, kr_hash_u64(id), by_id, call->id == id);
}

/* --- calls without a reply for long ----------------------------------------------------------- */

void kr_rpc_watch(struct kr_rpc *rpc, uint64_t limit_ns, kr_rpc_watch_fn fn, void *context)
{
	rpc->watch = (struct kr_rpc_watch){.limit_ns = limit_ns, .fn = fn, .context = context};
}

static bool is_watched(uint16_t type)
{
	return type == KR_MSG_LEASE || type == KR_MSG_FLUSH || type == KR_MSG_FSYNC;
}

static bool tell(const struct kr_call *call, bool answered, uint64_t now_ns)
{
	const struct kr_rpc_watch *watch = &call->rpc->watch;
	const struct kr_fid *fid = call->type == KR_MSG_LEASE ? &call->asked.lease_request.file :
		call->type == KR_MSG_FLUSH                    ? &call->asked.flush_request.file :
								&call->asked.fsync_request.file;

	return watch->fn(watch->context, call->type, fid, now_ns - call->sent_ns, answered);
}

void kr_rpc_watch_tick(struct kr_rpc *rpc, uint64_t now_ns)
{
	struct kr_call *call;

	if (!rpc->watch.fn || rpc->gate != KR_RPC_OPEN)
		return;
	KR_LIST_FOR_EACH(call, &rpc->calls, link) {
		if (call->on_wire && !call->said && is_watched(call->type) &&
			now_ns - call->sent_ns > rpc->watch.limit_ns)
			call->said = tell(call, false, now_ns);
	}
}

static void watch_ended(const struct kr_call *call)
{
	if (call->said && !call->rpc->stopped)
		tell(call, true, kr_clock_ns());
}

/* Takes CALL out of the queue and frees it after telling its owner. */
static void end_call(struct kr_call *call, int err, const void *reply, struct kr_buf *data)
{
	kr_rpc_fn callback = call->callback;
	void *context = call->context;

	watch_ended(call);
	if (call->change)
		call->rpc->hooks->ended(call->rpc->mount, call->change);
	kr_table_remove(&call->rpc->by_id, &call->by_id);
	kr_list_remove(&call->link);
	kr_call_free(call);
	if (callback)
		callback(context, err, reply, data);
}

/* Whether the server counts an open when it has executed the call. */
static bool opens(const struct kr_call *call)
{
	return call->type == KR_MSG_OPEN || call->type == KR_MSG_CREATE;
}

/* Answers the program with ERR; the rpc handles the server's reply when it comes. */
static void give_up(struct kr_call *call, int err)
{
	kr_rpc_fn callback = call->callback;
	void *context = call->context;

	call->callback = NULL;
	call->given_up = true;
	if (!call->sent || (!call->on_wire && !opens(call))) {
		end_call(call, err, NULL, NULL);
	} else if (call->on_wire && (call->flags & KR_RPC_READ_ONLY)) {
		kr_conn_forget(call->rpc->conn, call->id);
		end_call(call, err, NULL, NULL);
	}
	if (callback)
		callback(context, err, NULL, NULL);
}

/* The program gave up this OPEN or CREATE, but it succeeded: the server counts an open that must end.  No RECLAIM tells
 * another session of that open; there the CLOSE would end one that is in use. */
static void undo_open(struct kr_rpc *rpc, const struct kr_call *call, const void *reply)
{
	struct kr_close_request close = {.count = 1};

	close.file = call->type == KR_MSG_CREATE ? ((const struct kr_create_reply *)reply)->file :
						   call->asked.open_request.file;
	kr_rpc_call(rpc, KR_MSG_CLOSE, &close, NULL, 0, KR_RPC_HARD | KR_RPC_OF_SESSION, NULL, NULL);
}

static void on_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct kr_call *call = context;

	if (more) {
		kr_log_debug("%s: a reply in pieces was not expected", kr_msg_name(call->type));
		return;
	}
	if (err == -ECONNRESET) { /* the connection has ended: the call stays in the queue */
		call->on_wire = false;
		return;
	}
	call->rpc->heard_ns = kr_clock_ns();
	if (call->rpc->hooks)
		call->rpc->hooks->answered(call->rpc->mount, call->type, &call->asked, err, reply,
			kr_conn_reply_flags(call->rpc->conn), call->submitted_ns, call->rpc->heard_ns);
	if (call->given_up && err == 0 && opens(call))
		undo_open(call->rpc, call, reply);
	end_call(call, err, reply, data);
}

static void ignore_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	(void)context, (void)err, (void)reply, (void)data, (void)more;
}

static void send_cancel(struct kr_rpc *rpc, const struct kr_call *call)
{
	struct kr_cancel_request cancel = {.request = call->id};

	kr_conn_request_as(rpc->conn, ++rpc->last_id, 0, KR_MSG_CANCEL, &cancel, NULL, 0, ignore_reply, NULL);
}

static void transmit(struct kr_rpc *rpc, struct kr_call *call)
{
	call->on_wire = true;
	call->sent_ns = kr_clock_ns();
	if (kr_conn_request_encoded(rpc->conn, call->id, call->sent ? KR_FRAME_RESEND : 0, call->type, &call->fields,
		    call->slices, call->count, on_reply, call) < 0)
		call->on_wire = false; /* the connection is closing: the call goes out on the next */
	else
		call->sent = true;
	if (call->on_wire && call->withdrawn)
		send_cancel(rpc, call);
}

static bool may_go(const struct kr_rpc *rpc)
{
	return rpc->conn && rpc->gate == KR_RPC_OPEN;
}

static void send_waiting(struct kr_rpc *rpc)
{
	struct kr_call *call;

	rpc->has_later = false;
	KR_LIST_FOR_EACH(call, &rpc->calls, link)
		if (!call->on_wire && may_go(rpc))
			transmit(rpc, call);
}

static void on_later(uv_timer_t *timer)
{
	struct kr_rpc *rpc = timer->data;

	if (rpc->has_later)
		send_waiting(rpc);
	else
		uv_timer_stop(timer);
}

/* CALL is the last of all: the calls leave in the order in which they were submitted, whatever waits for others. */
static void send_now_or_later(struct kr_rpc *rpc, struct kr_call *call)
{
	if (call->flags & KR_RPC_LATER) {
		rpc->has_later = true;
		if (!uv_is_active((uv_handle_t *)&rpc->later))
			uv_timer_start(&rpc->later, on_later, KR_RPC_LATER_MS, KR_RPC_LATER_MS);
	} else if (rpc->has_later) {
		send_waiting(rpc);
	} else {
		transmit(rpc, call);
	}
}

/* A failure to report to the callback later, from the loop. */
struct late_failure {
	struct kr_task task;
	kr_rpc_fn callback;
	void *context;
	int err;
};

static void fail_late(struct kr_task *task)
{
	struct late_failure *late = KR_CONTAINER_OF(task, struct late_failure, task);

	late->callback(late->context, late->err, NULL, NULL);
	free(late);
}

static uint64_t fail_later(struct kr_rpc *rpc, int err, kr_rpc_fn callback, void *context)
{
	if (callback) {
		struct late_failure *late = kr_xcalloc(1, sizeof(*late));

		*late = (struct late_failure){
			.task.fn = fail_late, .callback = callback, .context = context, .err = err};
		kr_loop_post(rpc->mount->kr_loop, &late->task);
	}
	return ++rpc->last_id;
}

uint64_t kr_rpc_submit(struct kr_rpc *rpc, struct kr_call *call, unsigned flags, kr_rpc_fn callback, void *context)
{
	assert(kr_loop_here(rpc->mount->kr_loop));
	if (rpc->stopped) {
		kr_call_free(call);
		return fail_later(rpc, -ECANCELED, callback, context);
	}
	call->rpc = rpc;
	call->id = ++rpc->last_id;
	call->flags = flags;
	call->callback = callback;
	call->context = context;
	call->submitted_ns = kr_clock_ns();
	kr_list_append(&rpc->calls, &call->link);
	kr_rpc_start_tick(rpc);
	kr_table_insert(&rpc->by_id, &call->by_id, kr_hash_u64(call->id));
	if (rpc->hooks)
		call->change = rpc->hooks->begun(rpc->mount, call->type, &call->asked);
	if (may_go(rpc))
		send_now_or_later(rpc, call);
	return call->id;
}

uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	int err = 0;
	struct kr_call *call = kr_call_new(type, msg, slices, count, &err);

	if (call)
		return kr_rpc_submit(rpc, call, flags, callback, context);
	return fail_later(rpc, err, callback, context);
}

void kr_rpc_cancel(struct kr_rpc *rpc, uint64_t id)
{
	struct kr_call *call = find_call(rpc, id);

	if (!call || !call->callback || call->canceled_ns)
		return;
	call->canceled_ns = kr_clock_ns();
	if (call->on_wire)
		send_cancel(rpc, call);
	if (!call->on_wire || (call->flags & KR_RPC_READ_ONLY))
		give_up(call, -EINTR);
}

void kr_rpc_withdraw(struct kr_rpc *rpc, uint64_t id)
{
	struct kr_call *call = find_call(rpc, id);

	if (!call || call->withdrawn)
		return;
	call->withdrawn = true;
	if (call->on_wire)
		send_cancel(rpc, call);
	else if (!call->sent)
		end_call(call, -EINTR, NULL, NULL);
}

bool kr_rpc_silent(const struct kr_rpc *rpc, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t timeo_ns = rpc->mount->options->timeo * KR_NS_PER_MS;

	/* While the server still talks, a call waits there for another node. */
	return rpc->mount->options->soft && now_ns - since_ns > timeo_ns &&
		(now_ns - rpc->heard_ns > timeo_ns || rpc->gate != KR_RPC_OPEN);
}

static int overdue(const struct kr_rpc *rpc, const struct kr_call *call, uint64_t now)
{
	if (!call->callback)
		return 0;
	if (call->canceled_ns && now - call->canceled_ns > KR_RPC_CANCEL_MS * KR_NS_PER_MS)
		return -EINTR;
	if (!(call->flags & KR_RPC_HARD) && kr_rpc_silent(rpc, call->submitted_ns, now))
		return -ETIMEDOUT;
	return 0;
}

void kr_rpc_check_deadlines(struct kr_rpc *rpc)
{
	uint64_t now = kr_clock_ns();
	bool again;

	/* A callback may end other calls, so start over after each: there are few of these. */
	do {
		struct kr_call *call;

		again = false;
		KR_LIST_FOR_EACH(call, &rpc->calls, link) {
			int err = overdue(rpc, call, now);

			if (err < 0) {
				give_up(call, err);
				again = true;
				break;
			}
		}
	} while (again);
}

void kr_rpc_connection_lost(struct kr_rpc *rpc)
{
	struct kr_call *call;

	rpc->gate = KR_RPC_SHUT;
	rpc->has_later = false; /* all wait for the next connection */
	KR_LIST_FOR_EACH(call, &rpc->calls, link)
		call->on_wire = false;
	/* Callbacks may change the list, so start over after each that ran. */
	for (struct kr_link *link = rpc->calls.head.next; link != &rpc->calls.head;) {
		call = KR_LIST_ENTRY(link, struct kr_call, link);
		link = link->next;
		if (call->canceled_ns && call->callback) {
			give_up(call, -EINTR);
			link = rpc->calls.head.next;
		} else if (call->given_up && !opens(call)) {
			end_call(call, -EINTR, NULL, NULL);
		}
	}
}

void kr_rpc_open_answers(struct kr_rpc *rpc)
{
	rpc->gate = KR_RPC_ANSWERS_ONLY;
	rpc->backoff_ms = KR_RPC_BACKOFF_MIN_MS;
}

void kr_rpc_open(struct kr_rpc *rpc)
{
	rpc->gate = KR_RPC_OPEN;
	rpc->backoff_ms = KR_RPC_BACKOFF_MIN_MS;
	send_waiting(rpc);
}

static struct kr_rpc_down_link *find_down(const struct kr_rpc *rpc, uint64_t id)
{
	return KR_TABLE_FIND(struct kr_rpc_down_link, link, &rpc->downs, kr_hash_u64(id), by_id, link->id == id);
}

static struct kr_call *find_of_session(const struct kr_rpc *rpc)
{
	return KR_LIST_FIND(struct kr_call, call, &rpc->calls, link, call->flags & KR_RPC_OF_SESSION);
}

void kr_rpc_set_session(struct kr_rpc *rpc, uint64_t session)
{
	struct kr_call *call;

	if (session == rpc->session)
		return;
	rpc->session = session;
	kr_table_free_all(&rpc->downs, offsetof(struct kr_rpc_down_link, by_id));
	while ((call = find_of_session(rpc)))
		end_call(call, -ECANCELED, NULL, NULL);
}

void kr_rpc_deliver_down(struct kr_rpc *rpc, const struct kr_frame *frame)
{
	const struct kr_frame_header *header = &frame->header;
	kr_down_fn handler = header->type < KR_RPC_TYPES ? rpc->handlers[header->type] : NULL;
	bool oneway = header->flags & KR_FRAME_ONEWAY;
	union kr_any_msg *msg;
	struct kr_arena arena = {0};

	if (!oneway && find_down(rpc, header->id))
		return;
	if (!handler) {
		if (!oneway)
			kr_conn_reply(rpc->conn, header->type, header->id, 0, -EPROTO, NULL, NULL, 0);
		return;
	}
	msg = kr_xcalloc(1, sizeof(*msg));
	int err = kr_msg_decode(header->type, false, frame->fields, header->fields_length, msg, &arena);
	if (err < 0) {
		kr_log_warn(
			"the server sent a %s that cannot be decoded: %s", kr_msg_name(header->type), kr_fail_reason());
		if (!oneway)
			kr_conn_reply(rpc->conn, header->type, header->id, 0, -EPROTO, NULL, NULL, 0);
	} else {
		struct kr_down down = {.type = header->type, .id = oneway ? 0 : header->id, .session = rpc->session};

		if (!oneway) {
			struct kr_rpc_down_link *link = kr_xcalloc(1, sizeof(*link));

			link->id = header->id;
			kr_table_insert(&rpc->downs, &link->by_id, kr_hash_u64(link->id));
		}
		handler(rpc->mount, &down, msg, frame->data);
	}
	kr_arena_fini(&arena);
	free(msg);
}

void kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg)
{
	struct kr_rpc_down_link *link = down->session == rpc->session ? find_down(rpc, down->id) : NULL;

	if (!link)
		return;
	kr_table_remove(&rpc->downs, &link->by_id);
	free(link);
	if (rpc->has_later)
		send_waiting(rpc);
	/* Without a live connection the server asks again. */
	if (rpc->conn && rpc->gate != KR_RPC_SHUT)
		kr_conn_reply(rpc->conn, down->type, down->id, 0, err, err ? NULL : msg, NULL, 0);
}

void kr_rpc_on(struct kr_rpc *rpc, uint16_t type, kr_down_fn handler)
{
	assert(type < KR_RPC_TYPES);
	rpc->handlers[type] = handler;
}

bool kr_rpc_connected(const struct kr_rpc *rpc)
{
	return rpc->conn && rpc->gate == KR_RPC_OPEN;
}

const struct sockaddr *kr_rpc_address(const struct kr_rpc *rpc)
{
	return (const struct sockaddr *)&rpc->address;
}

size_t kr_rpc_pending(const struct kr_rpc *rpc)
{
	return rpc->by_id.count;
}

void kr_rpc_destroy(struct kr_rpc *rpc)
{
	kr_table_free_all(&rpc->downs, offsetof(struct kr_rpc_down_link, by_id));
	kr_table_fini(&rpc->by_id);
	free(rpc);
}

void kr_rpc_stop(struct kr_rpc *rpc)
{
	struct kr_link *link;

	rpc->stopped = true;
	rpc->gate = KR_RPC_SHUT;
	if (rpc->resolving)
		kr_resolve_cancel(rpc->resolving);
	rpc->resolving = NULL;
	if (rpc->conn) {
		struct kr_call *call;

		KR_LIST_FOR_EACH(call, &rpc->calls, link)
			if (call->on_wire)
				kr_conn_forget(rpc->conn, call->id);
		kr_conn_close(rpc->conn, false);
	}
	uv_timer_stop(&rpc->retry);
	uv_timer_stop(&rpc->tick);
	uv_timer_stop(&rpc->later);
	while ((link = rpc->calls.head.next) != &rpc->calls.head)
		end_call(KR_LIST_ENTRY(link, struct kr_call, link), -ECANCELED, NULL, NULL);
}
