#include "server/session/callbacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/base/server.h"
#include "server/session/session.h"

/* A callback until the node answers it. */
struct callback {
	struct kr_link link; /* kr_session_callbacks.unanswered */
	struct kr_table_link by_id;
	struct kr_session *session;
	uint64_t id;
	uint16_t type;
	bool tried, sent; /* ever; on the present connection */
	struct kr_writer fields;
	kr_callback_fn fn;
	kr_callback_working_fn working;
	void *context;
	uint64_t asked_ns;
	uint64_t since_ns;        /* earlier, if a former session of the node got the same callback */
	struct kr_session *asker; /* the session that gave this callback up; NULL */
	struct kr_link of_asker;  /* kr_session_callbacks.abandoned */
};

static void free_callback(struct callback *callback)
{
	kr_list_remove(&callback->link);
	kr_table_remove(&callback->session->callbacks.by_id, &callback->by_id);
	kr_writer_fini(&callback->fields);
	if (callback->asker) {
		kr_list_remove(&callback->of_asker);
		callback->asker->callbacks.abandoned_count--;
	}
	free(callback);
}

/* Forgets the callback; the node may still answer it. */
static void drop(struct callback *callback)
{
	if (callback->session->conn)
		kr_conn_forget(callback->session->conn, callback->id);
	free_callback(callback);
}

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct callback *callback = context;
	struct kr_session *session = callback->session;
	kr_callback_fn fn = callback->fn;
	void *fn_context = callback->context;

	(void)data;
	if (err == -ECONNRESET || more)
		return; /* repeated on the next connection */
	if (err == -ENOTCONN)
		err = -EIO; /* a node must not fake the session's end: it would keep its leases and get no callbacks */
	free_callback(callback);
	kr_session_get(session);
	if (fn)
		fn(session, fn_context, err, err ? NULL : reply);
	kr_session_put(session);
}

static void send_callback(struct callback *callback)
{
	kr_conn_request_encoded(callback->session->conn, callback->id, callback->tried ? KR_FRAME_RESEND : 0,
		callback->type, &callback->fields, NULL, 0, on_answer, callback);
	callback->tried = callback->sent = true;
}

/* A node that still recovers does not know what its journal holds: the server asks for sizes afterwards. */
static bool must_wait(const struct callback *callback)
{
	return callback->type == KR_MSG_QUERY && callback->session->recovery.inheriting;
}

/* A node that reads nothing must not let its queue grow: later callbacks wait until it has taken most of it. */
static bool can_send(const struct callback *callback)
{
	struct kr_session *session = callback->session;

	if (!session->conn || callback->sent)
		return false;
	session->callbacks.withheld |= kr_conn_queued(session->conn) > KR_SESSION_QUEUE_MAX;
	return !session->callbacks.withheld && !must_wait(callback);
}

static void send_all(struct kr_session *session)
{
	struct callback *callback, *after;

	session->callbacks.withheld = false;
	KR_LIST_FOR_EACH_SAFE(callback, after, &session->callbacks.unanswered, link) {
		if (can_send(callback))
			send_callback(callback);
		else if (session->callbacks.withheld)
			break;
	}
}

uint64_t kr_callback_send(struct kr_session *session, uint16_t type, const void *msg, kr_callback_fn fn, void *context)
{
	return kr_callback_send_long(session, type, msg, fn, NULL, context, kr_clock_ns());
}

uint64_t kr_callback_send_long(struct kr_session *session, uint16_t type, const void *msg, kr_callback_fn fn,
	kr_callback_working_fn working, void *context, uint64_t since_ns)
{
	struct callback *callback;

	if (session->dead)
		return 0;
	callback = kr_xcalloc(1, sizeof(*callback));
	callback->session = session;
	callback->id = ++session->callbacks.last_id;
	callback->type = type;
	callback->fn = fn;
	callback->working = working;
	callback->context = context;
	callback->asked_ns = kr_clock_ns();
	callback->since_ns = KR_MIN(since_ns, callback->asked_ns);
	kr_writer_init(&callback->fields);
	if (kr_msg_encode(type, false, msg, &callback->fields)) {
		kr_log_error("cannot encode %s for node %s", kr_msg_name(type), session->name);
		kr_writer_fini(&callback->fields);
		free(callback);
		return 0;
	}
	kr_list_append(&session->callbacks.unanswered, &callback->link);
	kr_table_insert(&session->callbacks.by_id, &callback->by_id, kr_hash_u64(callback->id));
	kr_link_init(&callback->of_asker);
	session->callbacks.older |= callback->since_ns < session->expiry.begun_ns;
	if (can_send(callback))
		send_callback(callback);
	return callback->id;
}

static struct callback *find(const struct kr_session *session, uint64_t id)
{
	return KR_TABLE_FIND(
		struct callback, callback, &session->callbacks.by_id, kr_hash_u64(id), by_id, callback->id == id);
}

void kr_callback_abandon(struct kr_session *session, uint64_t id, struct kr_session *asker)
{
	struct callback *callback = find(session, id);

	if (!callback)
		return;
	callback->fn = NULL;
	callback->working = NULL;
	if (asker->dead) { /* a dead session cannot account for it */
		drop(callback);
		return;
	}
	callback->asker = asker;
	kr_list_append(&asker->callbacks.abandoned, &callback->of_asker);
	asker->callbacks.abandoned_count++;
}

void kr_callbacks_forget(const struct kr_session *session)
{
	const struct callback *callback;

	KR_LIST_FOR_EACH(callback, &session->callbacks.unanswered, link)
		kr_conn_forget(session->conn, callback->id);
}

void kr_callbacks_connected(struct kr_session *session)
{
	struct callback *callback;

	session->callbacks.delivered_ns = kr_clock_ns();
	session->callbacks.delivered_bytes = 0;
	KR_LIST_FOR_EACH(callback, &session->callbacks.unanswered, link)
		callback->sent = false;
	send_all(session);
}

void kr_callbacks_inherited(struct kr_session *session)
{
	send_all(session);
}

void kr_callbacks_drained(struct kr_session *session)
{
	if (session->callbacks.withheld)
		send_all(session);
}

static void drop_abandoned(struct kr_session *session)
{
	while (!kr_list_empty(&session->callbacks.abandoned))
		drop(KR_LIST_ENTRY(session->callbacks.abandoned.head.next, struct callback, of_asker));
}

void kr_callbacks_fail(struct kr_session *session)
{
	struct callback *callback;

	drop_abandoned(session);
	while ((callback = KR_LIST_POP(&session->callbacks.unanswered, struct callback, link))) {
		kr_callback_fn fn = callback->fn;
		void *context = callback->context;

		free_callback(callback);
		if (fn)
			fn(session, context, -ENOTCONN, NULL);
	}
}

/* --- patience --------------------------------------------------------------------------------- */

/* Callbacks wait behind bytes queued before them, which takes time; but KR_SESSION_DELIVERY bytes must go out per lease
 * time. */
static void note_delivery(struct kr_session *session, uint64_t now_ns)
{
	uint64_t received, sent;

	if (kr_conn_queued(session->conn) < KR_SESSION_DELIVERY)
		return;
	kr_conn_counters(session->conn, &received, &sent);
	if (sent < session->callbacks.delivered_bytes + KR_SESSION_DELIVERY)
		return;
	session->callbacks.delivered_bytes = sent;
	session->callbacks.delivered_ns = now_ns;
}

static uint64_t waited_ns(uint64_t since_ns, uint64_t now_ns)
{
	return now_ns - KR_MIN(now_ns, since_ns);
}

/* On one connection: a new one gives the node the whole time again, and without any it cannot answer. */
static bool is_silent_here(const struct callback *callback, uint64_t worked_ns, uint64_t now_ns)
{
	const struct kr_session *session = callback->session;
	const uint64_t since_ns = KR_MAX(KR_MAX(callback->asked_ns, session->callbacks.delivered_ns), worked_ns);

	return session->conn && waited_ns(since_ns, now_ns) > session->server->lease_ms * KR_NS_PER_MS;
}

/* In all: others do not wait forever for a node that reconnects in a loop or reads its queue slowly. */
static bool is_silent(const struct callback *callback, uint64_t worked_ns, uint64_t now_ns, unsigned leases)
{
	const struct kr_server *server = callback->session->server;
	const uint64_t since_ns = KR_MAX(KR_MAX(callback->since_ns, server->woke_ns), worked_ns);

	return waited_ns(since_ns, now_ns) > leases * server->lease_ms * KR_NS_PER_MS;
}

/* How long the server withheld a QUERY because the node had not yet reclaimed what it inherited. */
static uint64_t withheld_ns(const struct kr_session *session, uint64_t asked_ns, uint64_t now_ns)
{
	const uint64_t since_ns = KR_MAX(KR_MAX(asked_ns, session->recovery.inheriting_ns), session->server->woke_ns);

	return session->recovery.inheriting_ns ?
		waited_ns(since_ns, session->recovery.inheriting ? now_ns : session->recovery.claimed_ns) :
		0;
}

/* The node cannot answer an unsent QUERY, so that time does not count. But a node that inherits again and again must
 * not keep others waiting forever. */
static bool is_size_kept_back(const struct callback *callback, uint64_t now_ns)
{
	const struct kr_session *session = callback->session;

	if (must_wait(callback))
		return is_silent(callback, 0, now_ns, KR_SESSION_CLAIM_LEASES);
	return is_silent_here(callback, session->recovery.inheriting_ns ? session->recovery.claimed_ns : 0, now_ns) ||
		is_silent(callback, 0, now_ns - withheld_ns(session, callback->since_ns, now_ns),
			KR_SESSION_CALLBACK_LEASES);
}

/* RECLAIMs that wait for the server's answer count as work, but not forever. */
static bool is_neglected(const struct callback *callback, uint64_t now_ns)
{
	const struct kr_session *session = callback->session;
	const uint64_t claimed_ns = callback->working ? session->recovery.claimed_ns : 0;
	const bool claims = claimed_ns && waited_ns(claimed_ns, now_ns) <= session->server->lease_ms * KR_NS_PER_MS;
	uint64_t worked_ns = 0;

	if (callback->type == KR_MSG_QUERY)
		return is_size_kept_back(callback, now_ns);
	if (callback->working && callback->working(callback->session, callback->context, &worked_ns))
		return false;
	return is_silent_here(callback, KR_MAX(worked_ns, claimed_ns), now_ns) ||
		is_silent(callback, worked_ns, now_ns, claims ? KR_SESSION_CLAIM_LEASES : KR_SESSION_CALLBACK_LEASES);
}

bool kr_callbacks_neglected(struct kr_session *session, uint64_t now_ns)
{
	const struct callback *callback;

	if (session->expiry.unresponsive)
		return false;
	if (session->conn)
		note_delivery(session, now_ns);
	KR_LIST_FOR_EACH(callback, &session->callbacks.unanswered, link) {
		if (!session->callbacks.older &&
			waited_ns(callback->asked_ns, now_ns) <= session->server->lease_ms * KR_NS_PER_MS)
			break; /* later callbacks have waited less */
		if (!is_silent_here(callback, 0, now_ns) && !is_silent(callback, 0, now_ns, KR_SESSION_CALLBACK_LEASES))
			continue;
		if (!is_neglected(callback, now_ns))
			continue;
		kr_log_warn("node %s has not answered %s for %" PRIu64
			    " s: it is not heard any more, and lost after %u s",
			session->name, kr_msg_name(callback->type), waited_ns(callback->since_ns, now_ns) / KR_NS_PER_S,
			session->server->lease_ms / 1000);
		return true;
	}
	return false;
}
