#include "server/session/expiry.h"

#include "common/base/log.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"

/* A peer that takes the server's bytes is alive, even if its own frames wait behind a pause. */
static void note_progress(struct kr_session *session, uint64_t now_ns)
{
	uint64_t received, sent;

	if (!session->conn || !(session->flow.paused_queue || session->flow.paused_running))
		return;
	kr_conn_counters(session->conn, &received, &sent);
	if (sent != session->expiry.sent_bytes || session->flow.paused_running)
		session->expiry.heard_ns = now_ns;
	session->expiry.sent_bytes = sent;
}

/* A node flushes after all its RECLAIMs are answered, which may wait for flushes of other nodes.  Until then it has
 * more time, with a limit, since it can always send another RECLAIM. */
static void note_claims(struct kr_session *session, uint64_t now_ns)
{
	const uint64_t since_ns = KR_MAX(session->expiry.begun_ns, session->server->woke_ns);
	const uint64_t ends_ns = since_ns + KR_SESSION_CLAIM_LEASES * session->server->lease_ms * KR_NS_PER_MS;
	struct kr_request *request;

	if (!session->recovery.reclaiming || now_ns >= ends_ns)
		return;
	KR_TABLE_FOR_EACH(request, &session->requests, by_id)
		if (request->type == KR_MSG_RECLAIM)
			session->recovery.claimed_ns = now_ns;
}

/* By its own clock, which starts when it sends, a silent node stops serving after 3/4 of the lease time. After all of
 * it the server first removes the node's record, durably: a later instance must not await the node. Only then do other
 * nodes get its leases. */
static void expire(struct kr_session *session)
{
	if (session->recovery.recording)
		return;
	if (session->recovery.recorded)
		kr_session_unrecord(session, NULL, NULL); /* tried again with the next tick */
	else
		kr_session_end(session, KR_SESSION_LOST);
}

/* The node may still use its leases, so it must first fall silent like a disconnected one and notice that by its own
 * clock. Until lease expiry it cannot come back. */
void kr_session_silence(struct kr_session *session)
{
	session->expiry.unresponsive = true;
	if (session->conn)
		kr_conn_close(session->conn, false);
}

static bool is_past(uint64_t since_ns, uint64_t now_ns, unsigned leases, const struct kr_server *server)
{
	return now_ns - KR_MIN(now_ns, KR_MAX(since_ns, server->woke_ns)) > leases * server->lease_ms * KR_NS_PER_MS;
}

/* Before RECLAIM_DONE the server cannot call its inherited leases back. */
static bool inherits_for_too_long(const struct kr_session *session, uint64_t now_ns)
{
	if (!session->recovery.inheriting || session->expiry.unresponsive ||
		!is_past(session->recovery.inheriting_ns, now_ns, KR_SESSION_CLAIM_LEASES, session->server))
		return false;
	kr_log_warn("node %s has begun anew and does not say what it still holds: it is not heard any more, and lost "
		    "after %u s",
		session->name, session->server->lease_ms / 1000);
	return true;
}

void kr_expiry_tick(struct kr_server *server, uint64_t now_ns)
{
	struct kr_session *session, *after;

	KR_LIST_FOR_EACH_SAFE(session, after, &server->sessions->living, link) {
		note_progress(session, now_ns);
		note_claims(session, now_ns);
		if (now_ns - session->expiry.heard_ns > server->lease_ms * KR_NS_PER_MS)
			expire(session);
		else if (kr_callbacks_neglected(session, now_ns) || inherits_for_too_long(session, now_ns))
			kr_session_silence(session);
		else if (!session->recovery.recorded && !session->recovery.recording && !session->recovery.reclaiming &&
			!session->recovery.unjudged)
			kr_session_record(session, NULL, NULL); /* a frame came at the last moment */
	}
}
