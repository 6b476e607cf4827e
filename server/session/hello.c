/* HELLO and the requests about the session itself.
 *
 * A HELLO takes two blocking steps in the pool before its reply: finding the root's identity, and removing the record
 * of a node whose former leases are void. The connection is paused meanwhile. */
#include "server/session/hello.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/rpc/attr_cache.h"
#include "server/export/export.h"
#include "server/base/options.h"
#include "server/session/request.h"
#include "server/session/session.h"
#include "server/base/state.h"
#include "server/session/trust.h"

enum { KEEP_REPLIES_MS = 60000, COPY_SAY_AGAIN_S = 60 };

struct hello {
	struct kr_job job;
	struct kr_pending_conn *pending_conn;
	uint64_t id;
	struct kr_hello_request request;
	struct kr_arena arena;
	uint8_t *fields;
	struct kr_key *key;            /* reference; NULL without keys */
	uint8_t mask[KR_SESSION_KEY];  /* for the ring key in the reply */
	uint32_t *groups, group_count; /* see trust.h */
	bool resumes;                  /* needs no record in the state directory */
	bool forgotten;                /* the state directory no longer names the node */
	uint64_t arrived_ns;           /* kr_clock_ns */
	struct kr_fid root;
	struct kr_attr attr;
	int err;
	char reason[256];
};

static void now(struct kr_time *ret)
{
	uint64_t ns = kr_clock_real_ns();

	*ret = (struct kr_time){.sec = (int64_t)(ns / KR_NS_PER_S), .nsec = (uint32_t)(ns % KR_NS_PER_S)};
}

static void free_hello(struct hello *hello)
{
	kr_arena_fini(&hello->arena);
	kr_key_put(hello->key);
	free(hello->groups);
	free(hello->fields);
	sodium_memzero(hello->mask, sizeof(hello->mask));
	free(hello);
}

/* Answers with ERR and closes the connection. */
static void refuse(struct hello *hello, int err, const char *reason)
{
	struct kr_conn *conn = kr_pending_conn_take(hello->pending_conn);

	if (conn) {
		kr_log_warn("node %s (%s) refused: %s", hello->request.node_name ? hello->request.node_name : "?",
			kr_conn_peer(conn), reason);
		kr_conn_reply(conn, KR_MSG_HELLO, hello->id, 0, err, NULL, NULL, 0);
		kr_conn_close(conn, true);
	}
	free_hello(hello);
}

static struct kr_session *resumable(const struct hello *hello)
{
	const struct kr_hello_request *request = &hello->request;
	struct kr_session *session =
		request->session ? kr_session_find(hello->pending_conn->server, request->session) : NULL;

	if (!session || session->expiry.unresponsive || memcmp(session->node_id, request->node_id, 16) != 0)
		return NULL;
	return kr_trust_same_owner(session->trust.key, hello->key) ? session : NULL;
}

/* The ring listener's address may have changed with the node's address. */
static void note_ring(struct kr_session *session, const struct kr_hello_request *hello, struct kr_conn *conn)
{
	free(session->ring.address);
	kr_conn_peer_host(conn, session->trust.host, sizeof(session->trust.host));
	session->ring.address = kr_xstrdup(hello->ring_address[0] ? hello->ring_address : session->trust.host);
	session->ring.port = hello->ring_port;
}

static void welcome(struct hello *hello, struct kr_session *session, bool resumed)
{
	struct kr_server *server = session->server;
	struct kr_conn *conn = kr_pending_conn_take(hello->pending_conn);
	struct kr_export_info info;
	struct kr_hello_reply reply = {
		.proto = KR_PROTO_VERSION,
		.session = session->id,
		.resumed = resumed,
		.node = session->node,
		.instance = server->instance,
		.lease_ms = server->lease_ms,
		.grace_ms = server->sessions->grace.active ? server->lease_ms : 0,
		.root = hello->root,
		.root_attr = hello->attr,
	};

	kr_trust_set_groups(session, hello->groups, hello->group_count);
	hello->groups = NULL;
	if (!conn) { /* the connection is gone: the session waits for the next one, or expires */
		free_hello(hello);
		return;
	}
	kr_export_info(server->export, &info);
	reply.file_max = info.file_max;
	reply.late = session->recovery.lapse.kind != KR_LAPSE_NONE;
	session->root = hello->root;
	memcpy(reply.boot_id, server->boot_id, 16);
	memcpy(reply.export_id, server->export_id, 16);
	for (size_t i = 0; i < sizeof(reply.ring_key); i++)
		reply.ring_key[i] = session->ring.key[i] ^ hello->mask[i];
	now(&reply.now);
	note_ring(session, &hello->request, conn);
	kr_key_put(session->trust.key);
	session->trust.key = hello->key; /* perhaps another key of the same owner */
	hello->key = NULL;
	kr_log_info("node %s (%s) %s", session->name, kr_conn_peer(conn),
		resumed                          ? "goes on" :
			session->recovery.replay ? "has a session: somebody replays its journal" :
						   "has a session");
	kr_conn_reply(conn, KR_MSG_HELLO, hello->id, 0, 0, &reply, NULL, 0);
	kr_conn_resume(conn);
	kr_session_attach(session, conn);
	free_hello(hello);
}

static bool is_replay(const struct hello *hello)
{
	return hello->request.flags & KR_HELLO_REPLAY;
}

/* The node, not a client that replays its journal. */
static bool has_lost_power(const struct hello *hello)
{
	return (hello->request.flags & KR_HELLO_POWER_LOST) && !is_replay(hello);
}

/* 0, or why a client cannot replay this journal beside OTHER, a session of the node. That node may use its leases even
 * while silent, so the replay waits for the session's end. Another replay holds nothing that it could use unheard. */
static int check_replay(const struct kr_session *other)
{
	const uint64_t patience_ns =
		other->server->lease_ms * KR_NS_PER_MS / 2; /* a node sends five frames per lease time */

	if (other->conn && kr_clock_ns() - other->expiry.heard_ns <= patience_ns)
		return kr_fail(-EBUSY,
			other->recovery.replay ? "its journal is being replayed by somebody else" :
						 "its journal cannot be replayed while node %s is connected",
			other->name);
	return other->recovery.replay ?
		0 :
		kr_fail(-EAGAIN, "its journal cannot be replayed before the session of node %s has ended", other->name);
}

/* Whether a later HELLO of the node has begun OTHER, its session: the node has given up this connection, and the later
 * HELLO was faster in the pool.  This one must not end OTHER, whose leases the node uses. */
static bool is_overtaken(const struct hello *hello, const struct kr_session *other)
{
	return other && other->recovery.replay == is_replay(hello) && other->expiry.hello_ns > hello->arrived_ns;
}

/* 0, or why this client gets no session, whatever it mounts. */
static int check_trust(const struct hello *hello)
{
	struct kr_server *server = hello->pending_conn->server;
	const struct kr_session *other = kr_session_find_node_id(server, hello->request.node_id);
	const struct kr_lapse lapse = kr_session_lapse(server, hello->request.node_id);

	if (other && other->recovery.replay && !is_replay(hello))
		other = NULL; /* a replay does not keep the journal's own node out */

	if (!kr_trust_accepts(server, hello->key))
		return kr_fail(-EKEYREJECTED, "its key is not accepted any more");
	if (other && !kr_trust_same_owner(other->trust.key, hello->key))
		return kr_fail(-EBUSY, "its local directory is that of node %s, which came with a key of somebody else",
			other->name);
	if (!other && !kr_trust_is_owner(server, &lapse.owner, hello->key))
		return kr_fail(-EBUSY,
			"its local directory is that of a node which was lost, or has not come back yet, and which "
			"came with a key of somebody else");
	if (is_overtaken(hello, other))
		return kr_fail(-EAGAIN, "its later HELLO has begun a session");
	if (other && other->expiry.unresponsive)
		return kr_fail(
			-EAGAIN, "it left a question unanswered: it has to be silent until its leases have ended");
	return other && is_replay(hello) && other != resumable(hello) ? check_replay(other) : 0;
}

/* 0, or the user's sessions without OLD are at the limit. Node keys have no limit: clusters are large, and a holder of
 * a node key can do all harm with one session. */
static int check_room(const struct hello *hello, const struct kr_session *old)
{
	struct kr_server *server = hello->pending_conn->server;
	const uint64_t most = server->options->user_sessions;
	uint64_t here = 0, all = 0;
	struct kr_session *session;
	char host[64] = "";

	if (!hello->key || hello->key->owner.kind != KR_KEY_USER)
		return 0;
	if (hello->pending_conn->conn)
		kr_conn_peer_host(hello->pending_conn->conn, host, sizeof(host));
	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (session == old || !kr_trust_same_owner(session->trust.key, hello->key))
			continue;
		all++;
		here += strcmp(session->trust.host, host) == 0;
	}
	if (here >= most)
		return kr_fail(-EUSERS,
			"its user %s (%u) has %llu sessions from %s already (kairand --user-sessions N)",
			hello->key->name, hello->key->owner.uid, (unsigned long long)here, host);
	if (all >= most * KR_SERVER_USER_ADDRESSES)
		return kr_fail(-EUSERS,
			"its user %s (%u) has %llu sessions already (%d times kairand --user-sessions N)",
			hello->key->name, hello->key->owner.uid, (unsigned long long)all, KR_SERVER_USER_ADDRESSES);
	return 0;
}

/* A machine that was cloned with its local directory has the node id of another.  Each of the two ends the other's
 * session whenever it connects.  A daemon counts its starts in that directory.  So none that begins anew comes with
 * fewer, and none with as many from elsewhere. */
static void warn_of_copy(const struct hello *hello, const struct kr_session *old)
{
	struct kr_sessions *sessions = hello->pending_conn->server->sessions;
	const struct kr_hello_request *request = &hello->request;

	if (is_replay(hello) || old->recovery.replay || request->incarnation > old->incarnation)
		return;
	if (request->incarnation == old->incarnation && strcmp(request->node_name, old->name) == 0 &&
		strcmp(request->ring_address, old->ring.address) == 0)
		return; /* it has not got the answer to its last HELLO */
	if (sessions->copy_said_ns && kr_clock_ns() - sessions->copy_said_ns < COPY_SAY_AGAIN_S * KR_NS_PER_S)
		return;
	sessions->copy_said_ns = kr_clock_ns();
	kr_log_warn(
		"nodes %s (%s) and %s (%s) have copies of one local directory, and end each other's sessions: unmount "
		"one of them, and mount it again with a local directory that is empty",
		old->name, old->ring.address, request->node_name, request->ring_address);
}

/* Whether a successor session may have this one's leases: they are its own beyond doubt. */
static bool inheritable(const struct kr_session *session)
{
	return session->recovery.recorded && !session->recovery.recording && !session->recovery.unjudged;
}

static void recorded(void *context, int err)
{
	struct hello *hello = context;
	struct kr_server *server = hello->pending_conn->server;
	struct kr_session *old = kr_session_find_node_id(server, hello->request.node_id), *session;
	bool inherits, last;

	if (server->stopping) { /* kr_listen_stop has closed the connection: the node asks the next instance */
		kr_pending_conn_take(hello->pending_conn);
		free_hello(hello);
		return;
	}
	if (err == 0)
		err = KR_FAULT("hello.record");
	if (err) {
		refuse(hello, -EAGAIN, "its record cannot be written");
		return;
	}
	err = check_trust(hello);
	if (!err)
		err = check_room(hello, old);
	if (err) {
		refuse(hello, err, kr_fail_reason());
		return;
	}
	if (old)
		warn_of_copy(hello, old);
	inherits = old && !hello->forgotten && inheritable(old) && !is_replay(hello);
	if (old && !inherits)
		kr_session_end(old, KR_SESSION_REPLACED);
	session = kr_session_new(server, &hello->request);
	if (!session) {
		refuse(hello, -EAGAIN, "too many sessions");
		return;
	}
	session->expiry.hello_ns = hello->arrived_ns;
	if (inherits)
		kr_session_replace(old, session);
	/* A node that has lost power waits for the end of the grace period itself. */
	last = has_lost_power(hello) && kr_grace_node_done(&server->sessions->grace, session->node_id);
	welcome(hello, session, false);
	if (last)
		server->sessions->hooks.end_grace(server);
}

static void walk(struct kr_job *job)
{
	struct hello *hello = KR_CONTAINER_OF(job, struct hello, job);
	struct kr_cred cred;

	if (!hello->resumes && kr_state_check(job->server->state) < 0) {
		hello->err = -ENXIO;
		snprintf(hello->reason, sizeof(hello->reason), "%s", kr_fail_reason());
		return;
	}
	hello->err = kr_trust_find_groups(job->server, hello->key, &hello->groups, &hello->group_count);
	if (hello->err) {
		snprintf(hello->reason, sizeof(hello->reason), "%s", kr_fail_reason());
		return;
	}
	kr_trust_cred(job->server, hello->key, hello->groups, hello->group_count, &cred);
	hello->err = kr_export_walk(job->server->export, cred.group_count ? &cred : NULL, hello->request.subdir,
		&hello->root, &hello->attr);
	if (hello->err)
		snprintf(hello->reason, sizeof(hello->reason), "/%.200s of the export, which it wants to mount: %s",
			hello->request.subdir, strerror(-hello->err));
}

static void walked(struct kr_job *job)
{
	struct hello *hello = KR_CONTAINER_OF(job, struct hello, job);
	struct kr_session *session = resumable(hello);
	int err;

	if (job->server->stopping) {
		kr_pending_conn_take(hello->pending_conn);
		free_hello(hello);
		return;
	}
	if (hello->err) {
		refuse(hello, hello->err, hello->reason);
		return;
	}
	err = check_trust(hello);
	if (err) {
		refuse(hello, err, kr_fail_reason());
		return;
	}
	if (session) {
		welcome(hello, session, true);
		return;
	}
	session = kr_session_find_node_id(job->server, hello->request.node_id);
	/* An awaited node still owns what it held, and so does a session that a successor replaces. The leases of any
	 * other node are free from here on, and so are those of a node that has lost power. Until it has reclaimed, a
	 * later instance must not await it. */
	hello->forgotten = has_lost_power(hello) ||
		(!(session && inheritable(session)) &&
			kr_session_lapse(job->server, hello->request.node_id).kind != KR_LAPSE_NONE);
	if (hello->forgotten)
		kr_state_forget_node(job->server, hello->request.node_id, recorded, hello);
	else
		recorded(hello, 0);
}

void kr_hello_arrived(struct kr_pending_conn *pending_conn, const struct kr_frame *frame)
{
	struct hello *hello = kr_xcalloc(1, sizeof(*hello));
	const struct kr_hello_request *request = &hello->request;
	union kr_any_msg msg;
	struct kr_session *session;

	hello->pending_conn = pending_conn;
	hello->key = pending_conn->auth.key ? kr_key_get(pending_conn->auth.key) : NULL;
	kr_auth_mask_ring_key(&pending_conn->auth, hello->mask);
	hello->id = frame->header.id;
	hello->arrived_ns = kr_clock_ns();
	hello->fields = kr_xmalloc(frame->header.fields_length + 1);
	memcpy(hello->fields, frame->fields, frame->header.fields_length);
	if (kr_msg_decode(KR_MSG_HELLO, false, hello->fields, frame->header.fields_length, &msg, &hello->arena)) {
		refuse(hello, -EPROTO, "its HELLO cannot be decoded");
		return;
	}
	hello->request = msg.hello_request;
	if (request->must) {
		refuse(hello, -EPROTONOSUPPORT,
			"it needs features that this server lacks (install the same kairan on both)");
		return;
	}
	if (strlen(request->ring) > KR_RING_NAME_MAX) {
		refuse(hello, -EINVAL, "the name of its ring is too long");
		return;
	}
	session = resumable(hello);
	if (session)
		/* the node lives: the session must not expire during its HELLO */
		session->expiry.heard_ns = kr_clock_ns();
	hello->resumes = session != NULL;
	pending_conn->busy = true;
	kr_conn_pause(pending_conn->conn);
	kr_job_start(pending_conn->server, &hello->job, walk, walked);
}

/* --- requests on a session ------------------------------------------------------------------------ */

static void handle_ping(struct kr_request *request)
{
	struct kr_session *session = request->session;

	/* The node received all earlier replies on this connection before it sent PING. */
	kr_reply_cache_prune(&session->replies, kr_clock_ns() - KEEP_REPLIES_MS * KR_NS_PER_MS);
	now(&request->reply.ping_reply.now);
	kr_request_reply_job(request);
}

static void handle_backlog(struct kr_request *request)
{
	const struct kr_backlog_request *backlog = &request->msg.backlog_request;
	struct kr_session *session = request->session;

	/* For people and JSON. */
	session->backlog.unflushed = KR_MIN(backlog->unflushed, (uint64_t)INT64_MAX);
	session->backlog.refused = KR_MIN(backlog->refused, session->backlog.unflushed);
	if (!session->backlog.unflushed)
		session->backlog.since_ns = 0;
	else if (!session->backlog.since_ns)
		session->backlog.since_ns = kr_clock_ns();
	kr_request_reply_job(request);
}

/* The node is no member any more, so others get what it held.  (If its record cannot be removed, it goes all the same.)
 */
static void left(void *context, int err)
{
	struct kr_request *request = context;
	struct kr_session *session = kr_session_get(request->session);

	(void)err;
	kr_request_reply_job(request);
	kr_session_end(session, KR_SESSION_LEFT);
	kr_session_put(session);
}

static void handle_goodbye(struct kr_request *request)
{
	if (request->session->recovery.recorded || request->session->recovery.recording)
		kr_session_unrecord(request->session, left, request);
	else
		left(request, 0);
}

static void handle_cancel(struct kr_request *request)
{
	struct kr_request *other = kr_request_find(request->session, request->msg.cancel_request.request);

	if (other && other != request)
		kr_request_withdraw(other, false);
	kr_request_reply_job(request);
}

static void reclaimed(void *context, int err)
{
	struct kr_request *request = context;
	struct kr_server *server = request->server;
	struct kr_session *session = request->session;
	bool last = false;

	if (err) {
		kr_request_reply(request, -EAGAIN, NULL, NULL, 0);
		return;
	}
	kr_session_reclaimed(session);
	if (!session->dead && !session->recovery.replay)
		last = kr_grace_node_done(&server->sessions->grace, session->node_id);
	kr_request_reply_job(request);
	if (last)
		server->sessions->hooks.end_grace(server);
}

static void handle_reclaim_done(struct kr_request *request)
{
	request->cancel = NULL;
	/* A restarted server takes a node without a record for late. */
	if (request->session->recovery.recorded || request->session->recovery.unjudged)
		reclaimed(request, 0);
	else
		kr_session_record(request->session, reclaimed, request);
}

void kr_hello_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_PING, handle_ping, KR_HANDLER_IN_GRACE);
	kr_server_on(server, KR_MSG_BACKLOG, handle_backlog, KR_HANDLER_IN_GRACE);
	kr_server_on(server, KR_MSG_GOODBYE, handle_goodbye, KR_HANDLER_IN_GRACE);
	kr_server_on(server, KR_MSG_CANCEL, handle_cancel, KR_HANDLER_IN_GRACE);
	kr_server_on(server, KR_MSG_RECLAIM_DONE, handle_reclaim_done, KR_HANDLER_IN_GRACE);
}
