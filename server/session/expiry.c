/* See expiry.h. */
#include "server/session/expiry.h"

#include "common/base/log.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"

/* A peer that takes our bytes is alive even if what it says waits behind a pause. */
static void note_progress(struct kr_session *session, uint64_t now_ns)
{
	uint64_t received, sent;

	if (!session->conn || !(session->paused_queue || session->paused_running))
		return;
	kr_conn_counters(session->conn, &received, &sent);
	if (sent != session->sent_bytes || session->paused_running)
		session->heard_ns = now_ns;
	session->sent_bytes = sent;
}

static bool look_for_claim(struct kr_table_link *link, void *found)
{
	*(bool *)found = KR_CONTAINER_OF(link, struct kr_request, by_id)->type == KR_MSG_RECLAIM;
	return !*(bool *)found;
}

/* A node flushes when all its RECLAIMs are answered, and they may wait for the flushes of others, and when it has
 * replayed: as long as we owe it one, or its replays go in, it has time for what it is to give back.  Not for ever,
 * since it can always send another one. */
static void note_claims(struct kr_session *session, uint64_t now_ns)
{
	const uint64_t since_ns = KR_MAX(session->begun_ns, session->server->woke_ns);
	const uint64_t ends_ns = since_ns + KR_SESSION_CLAIM_LEASES * session->server->lease_ms * KR_NS_PER_MS;
	bool found = false;

	if (!session->reclaiming || now_ns >= ends_ns)
		return;
	kr_table_for_each(&session->requests, look_for_claim, &found);
	session->claimed_ns = found ? now_ns : KR_MAX(session->claimed_ns, session->replayed_ns);
}

/* The order of things when a node falls silent: by its own clock, which began earlier than ours (it counts from when it
 * sent what we heard), the node stops serving after 3/4 of the lease time.  After all of it we make sure that no later
 * instance of this server takes the node for one that still has its leases: its record goes, durably.  Only then others
 * get them. */
static void expire(struct kr_session *session)
{
	if (session->recording)
		return;
	if (session->recorded)
		kr_session_unrecord(session);
	else
		kr_session_end(session, KR_SESSION_LOST);
}

/* It may still use what it has been given: so it has to fall silent first, as one that is cut off, and to learn that by
 * its own clock.  Until then it cannot come back. */
static void silence(struct kr_session *session)
{
	session->unresponsive = true;
	if (session->conn)
		kr_conn_close(session->conn, false);
}

static bool has_replay(const struct kr_session *session)
{
	const struct kr_request *request;

	KR_LIST_FOR_EACH(request, &session->flushes, of_flushes) {
		if (request->msg.flush_request.flags & KR_FLUSH_REPLAY)
			return true;
	}
	return false;
}

static bool is_past(uint64_t since_ns, uint64_t now_ns, unsigned leases, const struct kr_server *server)
{
	return now_ns - KR_MIN(now_ns, KR_MAX(since_ns, server->woke_ns)) > leases * server->lease_ms * KR_NS_PER_MS;
}

/* Looked for once in a lease time: it may have many files. */
static bool is_awaited(struct kr_session *session, uint64_t now_ns)
{
	if (!is_past(session->looked_ns, now_ns, 1, session->server))
		return false;
	session->looked_ns = now_ns;
	return session->server->sessions->hooks.awaited(session);
}

/* Until its RECLAIM_DONE it is not even asked for what it has inherited.  Replays take what they take, as long as
 * nobody waits for that. */
static bool inherits_for_too_long(struct kr_session *session, uint64_t now_ns)
{
	if (!session->inheriting || session->unresponsive ||
		!is_past(session->inheriting_ns, now_ns, KR_SESSION_CLAIM_LEASES, session->server))
		return false;
	if ((has_replay(session) || !is_past(session->replayed_ns, now_ns, KR_SESSION_CLAIM_LEASES, session->server)) &&
		!is_awaited(session, now_ns))
		return false;
	kr_log_warn(
		"node %s has begun anew and does not say what it still holds: it is not heard any more, and lost after %u s",
		session->name, session->server->lease_ms / 1000);
	return true;
}

void kr_expiry_tick(struct kr_server *server, uint64_t now_ns)
{
	struct kr_session *session, *after;

	KR_LIST_FOR_EACH_SAFE(session, after, &server->sessions->living, link) {
		note_progress(session, now_ns);
		note_claims(session, now_ns);
		if (now_ns - session->heard_ns > server->lease_ms * KR_NS_PER_MS)
			expire(session);
		else if (kr_callbacks_neglected(session, now_ns) || inherits_for_too_long(session, now_ns))
			silence(session);
		else if (!session->recorded && !session->recording && !session->reclaiming && !session->unjudged)
			kr_session_record(session, NULL, NULL); /* it was heard again in the last moment */
	}
}
