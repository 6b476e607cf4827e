/* What is asked of nodes: see callbacks.h. */
#include "server/session/callbacks.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/base/server.h"
#include "server/session/session.h"

/* A request to the node until it is answered. */
struct ask {
	struct kr_link link; /* kr_session.asks */
	struct kr_table_link by_id;
	struct kr_session *session;
	uint64_t id;
	uint16_t type;
	bool tried, sent; /* ever; on the connection that there is */
	struct kr_writer fields;
	kr_ask_fn fn;
	kr_ask_working_fn working;
	void *context;
	uint64_t asked_ns;
	uint64_t since_ns; /* before that, if a former session of the node was asked for the same */
	struct kr_session
		*stray_of;        /* it was asked for this one, which does not wait for the answer any more; NULL ... */
	struct kr_link of_strays; /* ... and its kr_session.stray_asks */
};

/* --- requests to the node --------------------------------------------------------------------- */

static void free_ask(struct ask *ask)
{
	kr_list_remove(&ask->link);
	kr_table_remove(&ask->session->asks_by_id, &ask->by_id);
	kr_writer_fini(&ask->fields);
	if (ask->stray_of) {
		kr_list_remove(&ask->of_strays);
		ask->stray_of->strays--;
	}
	free(ask);
}

/* As if it had never been asked; the answer may come all the same. */
static void drop(struct ask *ask)
{
	if (ask->session->conn)
		kr_conn_forget(ask->session->conn, ask->id);
	free_ask(ask);
}

static bool match_id(const struct kr_table_link *link, const void *key)
{
	return KR_CONTAINER_OF(link, struct ask, by_id)->id == *(const uint64_t *)key;
}

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct ask *ask = context;
	struct kr_session *session = ask->session;
	kr_ask_fn fn = ask->fn;
	void *fn_context = ask->context;

	(void)data;
	if (err == -ECONNRESET || more)
		return; /* asked again on the next connection */
	if (err == -ENOTCONN)
		err = -EIO; /* that its session has ended is not for the node to say: it would keep what it has, and be
			       asked no more */
	free_ask(ask);
	kr_session_get(session);
	if (fn)
		fn(session, fn_context, err, err ? NULL : reply);
	kr_session_put(session);
}

static void send_ask(struct ask *ask)
{
	union kr_any_msg msg;
	struct kr_arena arena = {0};
	int err;

	memset(&msg, 0, sizeof(msg));
	err = kr_msg_decode(ask->type, false, ask->fields.bytes, ask->fields.length, &msg, &arena);
	assert(err == 0 || err == -ENOMEM);
	if (err == 0)
		kr_conn_request_as(ask->session->conn, ask->id, ask->tried ? KR_FRAME_RESEND : 0, ask->type, &msg, NULL,
			0, on_answer, ask);
	ask->tried = ask->sent = true;
	kr_arena_fini(&arena);
	if (err)
		kr_conn_close(ask->session->conn, false); /* out of memory: the next connection gets it */
}

/* A node that still recovers does not know yet what its journal holds: it is asked for sizes when it does. */
static bool must_wait(const struct ask *ask)
{
	return ask->type == KR_MSG_QUERY && ask->session->inheriting;
}

/* A node that takes nothing shall not make the queue to it longer and longer: what is asked then is withheld until it
 * has taken most of it. */
static bool can_send(const struct ask *ask)
{
	struct kr_session *session = ask->session;

	if (!session->conn || ask->sent)
		return false;
	session->withheld |= kr_conn_queued(session->conn) > KR_SESSION_QUEUE_MAX;
	return !session->withheld && !must_wait(ask);
}

static void send_all(struct kr_session *session)
{
	struct ask *ask, *after;

	session->withheld = false;
	KR_LIST_FOR_EACH_SAFE(ask, after, &session->asks, link) {
		if (can_send(ask))
			send_ask(ask);
		else if (session->withheld)
			break;
	}
}

uint64_t kr_callback_send(struct kr_session *session, uint16_t type, const void *msg, kr_ask_fn fn, void *context)
{
	return kr_callback_send_long(session, type, msg, fn, NULL, context, kr_clock_ns());
}

uint64_t kr_callback_send_long(struct kr_session *session, uint16_t type, const void *msg, kr_ask_fn fn,
	kr_ask_working_fn working, void *context, uint64_t since_ns)
{
	struct ask *ask;

	if (session->dead)
		return 0;
	ask = kr_xcalloc(1, sizeof(*ask));
	ask->session = session;
	ask->id = ++session->last_ask;
	ask->type = type;
	ask->fn = fn;
	ask->working = working;
	ask->context = context;
	ask->asked_ns = kr_clock_ns();
	ask->since_ns = KR_MIN(since_ns, ask->asked_ns);
	kr_writer_init(&ask->fields);
	if (kr_msg_encode(type, false, msg, &ask->fields)) {
		kr_log_error("cannot encode %s for node %s", kr_msg_name(type), session->name);
		kr_writer_fini(&ask->fields);
		free(ask);
		return 0;
	}
	kr_list_append(&session->asks, &ask->link);
	kr_table_insert(&session->asks_by_id, &ask->by_id, kr_hash_u64(ask->id));
	kr_link_init(&ask->of_strays);
	session->owing |= ask->since_ns < session->begun_ns;
	if (can_send(ask)) {
		kr_conn_request_as(session->conn, ask->id, 0, type, msg, NULL, 0, on_answer, ask);
		ask->tried = ask->sent = true;
	}
	return ask->id;
}

void kr_callback_abandon(struct kr_session *session, uint64_t id, struct kr_session *asker)
{
	struct kr_table_link *link = kr_table_find(&session->asks_by_id, kr_hash_u64(id), match_id, &id);
	struct ask *ask;

	if (!link)
		return;
	ask = KR_CONTAINER_OF(link, struct ask, by_id);
	ask->fn = NULL;
	ask->working = NULL;
	if (asker->dead) { /* nobody is there any more whose it could be counted as: so nothing may be left of it */
		drop(ask);
		return;
	}
	ask->stray_of = asker;
	kr_list_append(&asker->stray_asks, &ask->of_strays);
	asker->strays++;
}

void kr_callbacks_forget(const struct kr_session *session)
{
	const struct ask *ask;

	KR_LIST_FOR_EACH(ask, &session->asks, link)
		kr_conn_forget(session->conn, ask->id);
}

void kr_callbacks_connected(struct kr_session *session)
{
	struct ask *ask;

	session->patient_ns = kr_clock_ns();
	session->patient_bytes = 0;
	KR_LIST_FOR_EACH(ask, &session->asks, link)
		ask->sent = false;
	send_all(session);
}

void kr_callbacks_inherited(struct kr_session *session)
{
	send_all(session);
}

void kr_callbacks_drained(struct kr_session *session)
{
	if (session->withheld)
		send_all(session);
}

static void drop_strays(struct kr_session *session)
{
	while (!kr_list_empty(&session->stray_asks))
		drop(KR_LIST_ENTRY(session->stray_asks.head.next, struct ask, of_strays));
}

void kr_callbacks_fail(struct kr_session *session)
{
	struct kr_link *link;

	drop_strays(session);
	while ((link = kr_list_pop(&session->asks))) {
		struct ask *ask = KR_LIST_ENTRY(link, struct ask, link);
		kr_ask_fn fn = ask->fn;
		void *context = ask->context;

		free_ask(ask);
		if (fn)
			fn(session, context, -ENOTCONN, NULL);
	}
}

/* --- patience --------------------------------------------------------------------------------- */

/* Questions wait behind what is queued before them, which may take its time, but not for ever: so much has to go out.
 */
static void note_delivery(struct kr_session *session, uint64_t now_ns)
{
	uint64_t received, sent;

	if (kr_conn_queued(session->conn) < KR_SESSION_DELIVERY)
		return;
	kr_conn_counters(session->conn, &received, &sent);
	if (sent < session->patient_bytes + KR_SESSION_DELIVERY)
		return;
	session->patient_bytes = sent;
	session->patient_ns = now_ns;
}

static uint64_t waited_ns(uint64_t since_ns, uint64_t now_ns)
{
	return now_ns - KR_MIN(now_ns, since_ns);
}

/* On one connection: a new one gives it the whole time anew, and without any it has no chance to answer. */
static bool is_silent_here(const struct ask *ask, uint64_t worked_ns, uint64_t now_ns)
{
	const struct kr_session *session = ask->session;
	const uint64_t since_ns = KR_MAX(KR_MAX(ask->asked_ns, session->patient_ns), worked_ns);

	return session->conn && waited_ns(since_ns, now_ns) > session->server->lease_ms * KR_NS_PER_MS;
}

/* In all: others do not wait for ever for one that connects anew all the time, or takes slowly what is queued before
 * the question. */
static bool is_silent(const struct ask *ask, uint64_t worked_ns, uint64_t now_ns, unsigned leases)
{
	const struct kr_server *server = ask->session->server;
	const uint64_t since_ns = KR_MAX(KR_MAX(ask->since_ns, server->woke_ns), worked_ns);

	return waited_ns(since_ns, now_ns) > leases * server->lease_ms * KR_NS_PER_MS;
}

/* For how long this session has not been told of a QUERY because it had not said yet what it has inherited. */
static uint64_t withheld_ns(const struct kr_session *session, uint64_t asked_ns, uint64_t now_ns)
{
	const uint64_t since_ns = KR_MAX(KR_MAX(asked_ns, session->inheriting_ns), session->server->woke_ns);

	return session->inheriting_ns ? waited_ns(since_ns, session->inheriting ? now_ns : session->claimed_ns) : 0;
}

/* It cannot answer what it has not been sent: that time does not count.  But who begins to inherit again and again does
 * not keep others waiting for ever. */
static bool is_size_kept_back(const struct ask *ask, uint64_t now_ns)
{
	const struct kr_session *session = ask->session;

	if (must_wait(ask))
		return is_silent(ask, 0, now_ns, KR_SESSION_CLAIM_LEASES);
	return is_silent_here(ask, session->inheriting_ns ? session->claimed_ns : 0, now_ns) ||
		is_silent(ask, 0, now_ns - withheld_ns(session, ask->since_ns, now_ns), KR_SESSION_ASK_LEASES);
}

/* What it claims as long as we owe it answers to its RECLAIMs counts as work, but not for ever. */
static bool is_neglected(const struct ask *ask, uint64_t now_ns)
{
	const struct kr_session *session = ask->session;
	const uint64_t claimed_ns = ask->working ? session->claimed_ns : 0;
	const bool claims = claimed_ns && waited_ns(claimed_ns, now_ns) <= session->server->lease_ms * KR_NS_PER_MS;
	uint64_t worked_ns = 0;

	if (ask->type == KR_MSG_QUERY)
		return is_size_kept_back(ask, now_ns);
	if (ask->working && ask->working(ask->session, ask->context, &worked_ns))
		return false;
	return is_silent_here(ask, KR_MAX(worked_ns, claimed_ns), now_ns) ||
		is_silent(ask, worked_ns, now_ns, claims ? KR_SESSION_CLAIM_LEASES : KR_SESSION_ASK_LEASES);
}

bool kr_callbacks_neglected(struct kr_session *session, uint64_t now_ns)
{
	const struct ask *ask;

	if (session->unresponsive)
		return false;
	if (session->conn)
		note_delivery(session, now_ns);
	KR_LIST_FOR_EACH(ask, &session->asks, link) {
		if (!session->owing && waited_ns(ask->asked_ns, now_ns) <= session->server->lease_ms * KR_NS_PER_MS)
			break; /* later ones have waited less */
		if (!is_silent_here(ask, 0, now_ns) && !is_silent(ask, 0, now_ns, KR_SESSION_ASK_LEASES))
			continue;
		if (!is_neglected(ask, now_ns))
			continue;
		kr_log_warn("node %s has not answered %s for %" PRIu64
			    " s: it is not heard any more, and lost after %u s",
			session->name, kr_msg_name(ask->type), waited_ns(ask->since_ns, now_ns) / KR_NS_PER_S,
			session->server->lease_ms / 1000);
		return true;
	}
	return false;
}
