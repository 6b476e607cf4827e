#include "server/session/session.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/session/grace.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/base/state.h"
#include "server/session/trust.h"

/* --- finding ---------------------------------------------------------------------------------- */

struct kr_session *kr_session_find(struct kr_server *server, uint64_t id)
{
	return KR_TABLE_FIND(
		struct kr_session, session, &server->sessions->by_id, kr_hash_u64(id), by_id, session->id == id);
}

struct kr_session *kr_session_find_node(struct kr_server *server, uint32_t node)
{
	return KR_LIST_FIND(struct kr_session, session, &server->sessions->living, link, session->node == node);
}

struct kr_session *kr_session_find_node_id(struct kr_server *server, const uint8_t node_id[16])
{
	return KR_LIST_FIND(struct kr_session, session, &server->sessions->living, link,
		memcmp(session->node_id, node_id, 16) == 0);
}

struct kr_session *kr_session_get(struct kr_session *session)
{
	session->references++;
	return session;
}

void kr_session_put(struct kr_session *session)
{
	if (!session)
		return;
	assert(session->references > 0);
	if (--session->references > 0)
		return;
	assert(session->dead && session->requests.count == 0);
	kr_table_fini(&session->requests);
	kr_table_fini(&session->callbacks.by_id);
	free(session->name);
	free(session->ring.address);
	free(session->ring.name);
	kr_key_put(session->trust.key);
	kr_trust_free_groups(session);
	kr_open_rights_fini(&session->trust.open_rights);
	free(session);
}

/* --- beginning -------------------------------------------------------------------------------- */

static uint64_t random_id(struct kr_server *server)
{
	uint64_t id;

	do {
		randombytes_buf(&id, sizeof(id));
	} while (id == 0 || kr_session_find(server, id));
	return id;
}

struct kr_lapse kr_session_lapse(struct kr_server *server, const uint8_t node_id[16])
{
	struct kr_lapse lapse = {.kind = KR_LAPSE_NONE};

	/* While the server removes the records of awaited nodes it is too late: other clients go on first. */
	if (!server->sessions->forgetting && kr_grace_awaits(&server->sessions->grace, node_id, &lapse.owner))
		return lapse;
	if (!kr_lapses_find(&server->sessions->lapses, node_id, &lapse))
		lapse.kind = KR_LAPSE_UNKNOWN;
	return lapse;
}

struct kr_session *kr_session_new(struct kr_server *server, const struct kr_hello_request *hello)
{
	struct kr_session *session;

	if (server->sessions->count >= KR_SERVER_SESSIONS_MAX)
		return NULL;
	session = kr_xcalloc(1, sizeof(*session));
	session->server = server;
	session->references = 1;
	session->id = random_id(server);
	session->node = ++server->sessions->last_node;
	memcpy(session->node_id, hello->node_id, 16);
	session->incarnation = hello->incarnation;
	session->name = kr_xstrdup(hello->node_name[0] ? hello->node_name : "?");
	session->ring.address = kr_xstrdup(hello->ring_address);
	session->ring.port = hello->ring_port;
	session->ring.name = kr_xstrdup(hello->ring);
	randombytes_buf(session->ring.key, sizeof(session->ring.key));
	session->recovery.reclaiming = true;
	session->recovery.successor = hello->session != 0;
	session->recovery.lapse = kr_session_lapse(server, session->node_id);
	session->recovery.replay = session->recovery.unjudged = hello->flags & KR_HELLO_REPLAY;
	session->recovery.old_journal = hello->flags & (KR_HELLO_REPLAY | KR_HELLO_POWER_LOST);
	if (session->recovery.old_journal && session->recovery.lapse.kind == KR_LAPSE_NONE)
		session->recovery.lapse.kind = KR_LAPSE_UNKNOWN;
	session->recovery.recorded = session->recovery.lapse.kind == KR_LAPSE_NONE;
	session->recovery.fresh_id = UINT64_MAX;
	session->expiry.heard_ns = session->expiry.begun_ns = kr_clock_ns();
	kr_table_init(&session->requests);
	kr_list_init(&session->flushes);
	kr_reply_cache_init(&session->replies);
	kr_list_init(&session->callbacks.unanswered);
	kr_table_init(&session->callbacks.by_id);
	kr_list_init(&session->callbacks.abandoned);
	kr_list_init(&session->staging.waiting);
	kr_list_init(&session->leases.attachments);
	kr_list_init(&session->leases.uncommitted);
	kr_list_append(&server->sessions->living, &session->link);
	kr_table_insert(&server->sessions->by_id, &session->by_id, kr_hash_u64(session->id));
	server->sessions->count++;
	return session;
}

void kr_sessions_init(struct kr_server *server)
{
	struct kr_sessions *sessions = kr_xcalloc(1, sizeof(*sessions));

	server->sessions = sessions;
	kr_list_init(&sessions->living);
	kr_list_init(&sessions->unanswered);
	kr_table_init(&sessions->by_id);
	kr_table_init(&sessions->outliving);
	kr_grace_init(&sessions->grace);
	kr_lapses_init(&sessions->lapses);
}

void kr_sessions_fini(struct kr_server *server)
{
	struct kr_sessions *sessions = server->sessions;

	kr_grace_fini(&sessions->grace);
	kr_lapses_fini(&sessions->lapses);
	kr_table_fini(&sessions->by_id);
	kr_table_fini(&sessions->outliving);
	free(sessions);
}

/* --- connections ------------------------------------------------------------------------------ */

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_session *session = kr_conn_context(conn);

	if (!session)
		return;
	session->expiry.heard_ns = kr_clock_ns();
	kr_session_get(session);
	kr_request_arrived(session, frame);
	kr_session_pressure(session);
	kr_session_put(session);
}

static void on_drain(struct kr_conn *conn)
{
	struct kr_session *session = kr_conn_context(conn);

	if (!session)
		return;
	kr_callbacks_drained(session);
	kr_session_pressure(session);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_session *session = kr_conn_context(conn);

	if (!session)
		return;
	session->conn = NULL;
	session->flow.paused_running = session->flow.paused_queue = false;
	if (err == -EBADMSG)
		kr_log_warn("node %s: %s: connection closed", session->name, reason);
	else
		kr_log_info("node %s: connection closed (%s); its session stays for %u s", session->name, reason,
			session->server->lease_ms / 1000);
}

static const struct kr_conn_handler handler = {on_frame, on_drain, on_closed};

/* The session gives up its connection. */
static void detach(struct kr_session *session)
{
	struct kr_conn *conn = session->conn;

	if (!conn)
		return;
	kr_callbacks_forget(session);
	session->conn = NULL;
	session->flow.paused_running = session->flow.paused_queue = false;
	kr_conn_set_context(conn, NULL);
}

void kr_session_attach(struct kr_session *session, struct kr_conn *conn)
{
	struct kr_conn *old = session->conn;

	assert(!session->dead);
	detach(session);
	if (old)
		kr_conn_close(old, false);
	session->conn = conn;
	session->connections++;
	session->expiry.sent_bytes = 0;
	session->expiry.heard_ns = kr_clock_ns();
	kr_conn_set_handler(conn, &handler);
	kr_conn_set_context(conn, session);
	kr_callbacks_connected(session);
	kr_session_pressure(session);
}

void kr_session_reclaimed(struct kr_session *session)
{
	if (session->recovery.reclaiming)
		session->recovery.claimed_ns = kr_clock_ns(); /* the node flushes only now */
	session->recovery.reclaiming = false;
	if (!session->recovery.inheriting)
		return;
	session->recovery.inheriting = false;
	session->server->sessions->hooks.reclaimed(session);
	kr_callbacks_inherited(session);
}

static void set_pause(struct kr_session *session, bool *paused, bool wanted)
{
	if (*paused == wanted)
		return;
	*paused = wanted;
	(wanted ? kr_conn_pause : kr_conn_resume)(session->conn);
}

bool kr_session_memory_tight(void)
{
	return kr_buf_bytes_in_use() + kr_conn_queued_in_all() + kr_request_bytes() > KR_SESSION_MEMORY;
}

/* When memory is no longer tight, the next end of a request or the drained queue calls this again. */
void kr_session_pressure(struct kr_session *session)
{
	const bool tight = kr_session_memory_tight();
	const size_t running_max = tight ? KR_SESSION_RUNNING_TIGHT : KR_SESSION_RUNNING_MAX;
	const size_t held_tight = kr_trust_is_user(session) ? KR_SESSION_HELD_TIGHT_USER : KR_SESSION_HELD_TIGHT;
	const size_t held_max = tight ? held_tight : KR_SESSION_HELD_MAX;
	const size_t queue_max = tight ? KR_SESSION_QUEUE_TIGHT : KR_SESSION_QUEUE_MAX;

	if (!session->conn)
		return;
	if (session->flow.running > running_max || session->flow.held > held_max)
		set_pause(session, &session->flow.paused_running, true);
	else if (session->flow.running < running_max / 2 && session->flow.held < held_max / 2)
		set_pause(session, &session->flow.paused_running, false);
	const size_t queued = kr_conn_queued(session->conn);
	if (queued > queue_max)
		set_pause(session, &session->flow.paused_queue, true);
	else if (queued <= KR_CONN_LOW_WATER)
		set_pause(session, &session->flow.paused_queue, false);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Withdrawing one request can start or end others, so the loop looks each up by id. */
static void withdraw_all(struct kr_session *session)
{
	uint64_t *ids = kr_xcalloc(session->requests.count + 1, sizeof(uint64_t));
	struct kr_request *request;
	size_t count = 0;

	KR_TABLE_FOR_EACH(request, &session->requests, by_id)
		ids[count++] = request->id;
	for (size_t i = 0; i < count; i++) {
		request = kr_request_find(session, ids[i]);
		if (request)
			kr_request_withdraw(request, true);
	}
	free(ids);
}

static void log_end(const struct kr_session *session, enum kr_session_end why)
{
	switch (why) {
	case KR_SESSION_LEFT:
		kr_log_info("node %s has left", session->name);
		break;
	case KR_SESSION_LOST:
		kr_log_warn(
			"node %s is lost: silent for %u s; its leases, locks and open files are released; it had told "
			"of %" PRIu64 " unflushed bytes",
			session->name, session->server->lease_ms / 1000, session->backlog.unflushed);
		break;
	case KR_SESSION_REPLACED:
		kr_log_info("node %s begins anew", session->name);
		break;
	case KR_SESSION_STOPPED:
		break;
	}
}

/* A session that ends before its node has reclaimed, or before its late bytes are judged, passes its lapse on. An
 * expired node's place is kept for its key's owner; a node that said GOODBYE needs none. A replay keeps its node's
 * lapse. */
static void note_lapse(struct kr_session *session, enum kr_session_end why)
{
	struct kr_lapse lapse = {
		.kind = KR_LAPSE_KNOWN, .epoch = session->server->sessions->hooks.epoch(session->server)};

	if ((session->recovery.reclaiming || session->recovery.unjudged) &&
		session->recovery.lapse.kind != KR_LAPSE_NONE)
		lapse = session->recovery.lapse;
	else if (session->recovery.unjudged)
		lapse.kind = KR_LAPSE_UNKNOWN;
	if (lapse.kind == KR_LAPSE_KNOWN)
		lapse.epoch = session->server->sessions->hooks.covered_until(session, lapse.epoch);
	if (!session->recovery.replay)
		lapse.owner = why == KR_SESSION_LOST && session->trust.key ? session->trust.key->owner :
									     (struct kr_key_owner){0};
	else if (why == KR_SESSION_LEFT)
		lapse.owner = (struct kr_key_owner){0};
	kr_lapses_note(&session->server->sessions->lapses, session->node_id, &lapse);
}

static void end(struct kr_session *session, enum kr_session_end why, struct kr_session *successor)
{
	struct kr_server *server = session->server;
	const struct kr_session_hooks *hooks = &server->sessions->hooks;
	struct kr_conn *conn = session->conn;

	if (session->dead)
		return;
	log_end(session, why);
	session->dead = true;
	kr_list_remove(&session->link);
	kr_table_remove(&server->sessions->by_id, &session->by_id);
	server->sessions->count--;
	if (why != KR_SESSION_STOPPED && !successor)
		note_lapse(session, why);
	detach(session);
	if (conn)
		kr_conn_close(conn, why == KR_SESSION_LEFT);
	withdraw_all(session);
	kr_callbacks_fail(session);
	hooks->flushes_end(session);
	hooks->locks_end(session);
	hooks->files_end(session, successor, why != KR_SESSION_STOPPED);
	kr_reply_cache_fini(&session->replies);
	server->sessions->lost += why == KR_SESSION_LOST;
	if (why == KR_SESSION_LOST || why == KR_SESSION_LEFT) {
		if (session->recovery.recorded || session->recovery.recording)
			kr_state_forget_node(server, session->node_id, NULL, NULL);
		if (!session->recovery.replay && kr_grace_node_done(&server->sessions->grace, session->node_id))
			hooks->end_grace(server);
	}
	kr_session_put(session);
}

void kr_session_end(struct kr_session *session, enum kr_session_end why)
{
	end(session, why, NULL);
}

void kr_session_replace(struct kr_session *session, struct kr_session *successor)
{
	successor->recovery.inheriting = true;
	successor->recovery.inheriting_ns =
		session->recovery.inheriting ? session->recovery.inheriting_ns : kr_clock_ns();
	successor->recovery.lapse.kind = KR_LAPSE_NONE;
	successor->recovery.recorded = true;
	end(session, KR_SESSION_REPLACED, successor);
}

/* --- the node's record ------------------------------------------------------------------------ */

struct recording {
	struct kr_session *session; /* reference */
	bool add;
	void (*done)(void *context, int err);
	void *context;
};

static void recorded(void *context, int err)
{
	struct recording *recording = context;
	struct kr_session *session = recording->session;

	session->recovery.recording = false;
	session->recovery.recorded = recording->add ? !err : err != 0; /* the caller retries a failed removal */
	if (recording->done)
		recording->done(recording->context, err);
	kr_session_put(session);
	free(recording);
}

static void change_record(struct kr_session *session, bool add, void (*done)(void *context, int err), void *context)
{
	struct recording *recording = kr_xcalloc(1, sizeof(*recording));

	*recording =
		(struct recording){.session = kr_session_get(session), .add = add, .done = done, .context = context};
	session->recovery.recording = true;
	if (add)
		kr_state_add_node(session->server, session->node_id,
			session->trust.key ? &session->trust.key->owner : NULL, session->name, recorded, recording);
	else
		kr_state_forget_node(session->server, session->node_id, recorded, recording);
}

void kr_session_record(struct kr_session *session, void (*done)(void *context, int err), void *context)
{
	change_record(session, true, done, context);
}

void kr_session_unrecord(struct kr_session *session, void (*done)(void *context, int err), void *context)
{
	change_record(session, false, done, context);
}
