/* HELLO and the life of a session as its node sees it.
 *
 * A HELLO takes two blocking steps in the pool before it is answered: the root's identity is looked up, and a new
 * session's node is recorded in the state directory, so that a restart of the server waits for it.  The connection is
 * paused meanwhile.
 */
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

enum { KEEP_REPLIES_MS = 60000 };

struct greeting {
	struct kr_job job;
	struct kr_pending_conn *pending_conn;
	uint64_t id;
	struct kr_hello_request hello;
	struct kr_arena arena;
	uint8_t *fields;
	struct kr_key *key;            /* reference; NULL without keys */
	uint8_t mask[KR_SESSION_KEY];  /* of the ring key */
	uint32_t *groups, group_count; /* see trust.h */
	bool forgotten;                /* the state directory has its node no more */
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

static void free_greeting(struct greeting *greeting)
{
	kr_arena_fini(&greeting->arena);
	kr_key_put(greeting->key);
	free(greeting->groups);
	free(greeting->fields);
	sodium_memzero(greeting->mask, sizeof(greeting->mask));
	free(greeting);
}

/* ERR is told to the node, and its connection ends. */
static void refuse(struct greeting *greeting, int err, const char *reason)
{
	struct kr_conn *conn = kr_pending_conn_take(greeting->pending_conn);

	if (conn) {
		kr_log_warn("node %s (%s) refused: %s", greeting->hello.node_name ? greeting->hello.node_name : "?",
			kr_conn_peer(conn), reason);
		kr_conn_reply(conn, KR_MSG_HELLO, greeting->id, 0, err, NULL, NULL, 0);
		kr_conn_close(conn, true);
	}
	free_greeting(greeting);
}

static struct kr_session *resumable(const struct greeting *greeting)
{
	const struct kr_hello_request *hello = &greeting->hello;
	struct kr_session *session =
		hello->session ? kr_session_find(greeting->pending_conn->server, hello->session) : NULL;

	if (!session || session->unresponsive || memcmp(session->node_id, hello->node_id, 16) != 0)
		return NULL;
	return kr_trust_same_owner(session->key, greeting->key) ? session : NULL;
}

/* What the node told about its ring listener may have changed with its address. */
static void note_ring(struct kr_session *session, const struct kr_hello_request *hello, struct kr_conn *conn)
{
	free(session->ring_address);
	kr_conn_peer_host(conn, session->host, sizeof(session->host));
	session->ring_address = kr_xstrdup(hello->ring_address[0] ? hello->ring_address : session->host);
	session->ring_port = hello->ring_port;
}

static void welcome(struct greeting *greeting, struct kr_session *session, bool resumed)
{
	struct kr_server *server = session->server;
	struct kr_conn *conn = kr_pending_conn_take(greeting->pending_conn);
	struct kr_hello_reply reply = {
		.proto = KR_PROTO_VERSION,
		.may = KR_FEATURE_LOOKUPS | KR_FEATURE_BACKLOG | KR_FEATURE_BEHIND | KR_FEATURE_LIMITS |
			KR_FEATURE_CACHED,
		.session = session->id,
		.resumed = resumed,
		.node = session->node,
		.instance = server->instance,
		.lease_ms = server->lease_ms,
		.grace_ms = server->sessions->grace.active ? server->lease_ms : 0,
		.root = greeting->root,
		.root_attr = greeting->attr,
	};

	kr_trust_set_groups(session, greeting->groups, greeting->group_count);
	greeting->groups = NULL;
	if (!conn) { /* gone again: the session waits for the next attempt, or expires */
		free_greeting(greeting);
		return;
	}
	reply.late = session->lapse.kind != KR_LAPSE_NONE;
	session->root = greeting->root;
	memcpy(reply.boot_id, server->boot_id, 16);
	memcpy(reply.export_id, server->export_id, 16);
	for (size_t i = 0; i < sizeof(reply.ring_key); i++)
		reply.ring_key[i] = session->ring_key[i] ^ greeting->mask[i];
	now(&reply.now);
	note_ring(session, &greeting->hello, conn);
	kr_key_put(session->key);
	session->notes = greeting->hello.may & KR_FEATURE_ATTR_CACHE;
	session->own_names = greeting->hello.may & KR_FEATURE_OWN_NAMES;
	session->hears_gone = greeting->hello.may & KR_FEATURE_GONE;
	session->key = greeting->key; /* another one of the same owner, perhaps */
	greeting->key = NULL;
	kr_log_info("node %s (%s) %s", session->name, kr_conn_peer(conn),
		resumed                 ? "goes on" :
			session->replay ? "has a session: somebody replays its journal" :
					  "has a session");
	kr_conn_reply(conn, KR_MSG_HELLO, greeting->id, 0, 0, &reply, NULL, 0);
	kr_conn_resume(conn);
	kr_session_attach(session, conn);
	free_greeting(greeting);
}

static bool is_replay(const struct greeting *greeting)
{
	return greeting->hello.flags & KR_HELLO_REPLAY;
}

/* 0; or why a journal cannot be replayed beside OTHER, a session of its node. That one may still use what it has been
 * given, also when nothing is heard of it: who replays waits for its end. Another replay has been given nothing that it
 * could use unheard. */
static int check_replay(const struct kr_session *other)
{
	const uint64_t patience_ns =
		other->server->lease_ms * KR_NS_PER_MS / 2; /* a node says something five times in a lease time */

	if (other->conn && kr_clock_ns() - other->heard_ns <= patience_ns)
		return kr_fail(-EBUSY,
			other->replay ? "its journal is being replayed by somebody else" :
					"its journal cannot be replayed while node %s is connected",
			other->name);
	return other->replay ?
		0 :
		kr_fail(-EAGAIN, "its journal cannot be replayed before the session of node %s has ended", other->name);
}

/* 0; or why it cannot have a session, whatever it mounts. */
static int check_trust(const struct greeting *greeting)
{
	struct kr_server *server = greeting->pending_conn->server;
	const struct kr_session *other = kr_session_find_node_id(server, greeting->hello.node_id);
	const struct kr_lapse lapse = kr_session_lapse(server, greeting->hello.node_id);

	if (other && other->replay && !is_replay(greeting))
		other = NULL; /* keeps nobody out whose journal it is */

	if (!kr_trust_accepts(server, greeting->key))
		return kr_fail(-EKEYREJECTED, "its key is not accepted any more");
	if (other && !kr_trust_same_owner(other->key, greeting->key))
		return kr_fail(-EBUSY, "its local directory is that of node %s, which came with a key of somebody else",
			other->name);
	if (!other && !kr_trust_is_owner(server, &lapse.owner, greeting->key))
		return kr_fail(-EBUSY,
			"its local directory is that of a node which was lost, or has not come back yet, and which came with a key of "
			"somebody else");
	if (other && other->unresponsive)
		return kr_fail(
			-EAGAIN, "it left a question unanswered: it has to be silent until its leases have ended");
	return other && is_replay(greeting) && other != resumable(greeting) ? check_replay(other) : 0;
}

/* 0; or the user has as many sessions as he may, without the one that this is to replace.  Nodes are not counted: they
 * may be many, and who has a node key needs no more than one session to do all harm. */
static int check_room(const struct greeting *greeting, const struct kr_session *old)
{
	struct kr_server *server = greeting->pending_conn->server;
	const uint64_t most = server->options->user_sessions;
	uint64_t here = 0, all = 0;
	struct kr_session *session;
	char host[64] = "";

	if (!greeting->key || greeting->key->owner.kind != KR_KEY_USER)
		return 0;
	if (greeting->pending_conn->conn)
		kr_conn_peer_host(greeting->pending_conn->conn, host, sizeof(host));
	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (session == old || !kr_trust_same_owner(session->key, greeting->key))
			continue;
		all++;
		here += strcmp(session->host, host) == 0;
	}
	if (here >= most)
		return kr_fail(-EUSERS,
			"its user %s (%u) has %llu sessions from %s already (kairand --user-sessions N)",
			greeting->key->name, greeting->key->owner.uid, (unsigned long long)here, host);
	if (all >= most * KR_SERVER_USER_ADDRESSES)
		return kr_fail(-EUSERS,
			"its user %s (%u) has %llu sessions already (%d times kairand --user-sessions N)",
			greeting->key->name, greeting->key->owner.uid, (unsigned long long)all,
			KR_SERVER_USER_ADDRESSES);
	return 0;
}

/* Whether a session that begins in the place of this one can have its leases: those are its own beyond doubt. */
static bool inheritable(const struct kr_session *session)
{
	return session->recorded && !session->recording && !session->unjudged;
}

static void recorded(void *context, int err)
{
	struct greeting *greeting = context;
	struct kr_server *server = greeting->pending_conn->server;
	struct kr_session *old = kr_session_find_node_id(server, greeting->hello.node_id), *session;
	bool inherits;

	if (server->stopping) { /* kr_listen_stop has closed its connection: it asks the next instance */
		kr_pending_conn_take(greeting->pending_conn);
		free_greeting(greeting);
		return;
	}
	if (err == 0)
		err = KR_FAULT("hello.record");
	if (err) {
		refuse(greeting, -EAGAIN, "its record cannot be written");
		return;
	}
	err = check_trust(greeting);
	if (!err)
		err = check_room(greeting, old);
	if (err) {
		refuse(greeting, err, kr_fail_reason());
		return;
	}
	inherits = old && !greeting->forgotten && inheritable(old) && !is_replay(greeting);
	if (old && !inherits)
		kr_session_end(old, KR_SESSION_REPLACED);
	session = kr_session_new(server, &greeting->hello);
	if (!session) {
		refuse(greeting, -EAGAIN, "too many sessions");
		return;
	}
	if (inherits)
		kr_session_replace(old, session);
	welcome(greeting, session, false);
}

static void walk(struct kr_job *job)
{
	struct greeting *greeting = KR_CONTAINER_OF(job, struct greeting, job);
	struct kr_cred cred;

	greeting->err = kr_trust_find_groups(job->server, greeting->key, &greeting->groups, &greeting->group_count);
	if (greeting->err) {
		snprintf(greeting->reason, sizeof(greeting->reason), "%s", kr_fail_reason());
		return;
	}
	kr_trust_cred(job->server, greeting->key, greeting->groups, greeting->group_count, &cred);
	greeting->err = kr_export_walk(job->server->export, cred.group_count ? &cred : NULL, greeting->hello.subdir,
		&greeting->root, &greeting->attr);
	if (greeting->err)
		snprintf(greeting->reason, sizeof(greeting->reason),
			"/%.200s of the export, which it wants to mount: %s", greeting->hello.subdir,
			strerror(-greeting->err));
}

static void walked(struct kr_job *job)
{
	struct greeting *greeting = KR_CONTAINER_OF(job, struct greeting, job);
	struct kr_session *session = resumable(greeting);
	int err;

	if (job->server->stopping) {
		kr_pending_conn_take(greeting->pending_conn);
		free_greeting(greeting);
		return;
	}
	if (greeting->err) {
		refuse(greeting, greeting->err, greeting->reason);
		return;
	}
	err = check_trust(greeting);
	if (err) {
		refuse(greeting, err, kr_fail_reason());
		return;
	}
	if (session) {
		welcome(greeting, session, true);
		return;
	}
	session = kr_session_find_node_id(job->server, greeting->hello.node_id);
	/* What an awaited node holds is its own still, and what a session holds that is to be replaced.  Anybody else's
	 * leases are free from here on: until it has reclaimed, a later instance of this server must not take it for
	 * one that has them. */
	greeting->forgotten = !(session && inheritable(session)) &&
		kr_session_lapse(job->server, greeting->hello.node_id).kind != KR_LAPSE_NONE;
	if (greeting->forgotten)
		kr_state_forget_node(job->server, greeting->hello.node_id, recorded, greeting);
	else
		recorded(greeting, 0);
}

void kr_hello_arrived(struct kr_pending_conn *pending_conn, const struct kr_frame *frame)
{
	struct greeting *greeting = kr_xcalloc(1, sizeof(*greeting));
	const struct kr_hello_request *hello = &greeting->hello;
	union kr_any_msg msg;
	struct kr_session *session;

	greeting->pending_conn = pending_conn;
	greeting->key = pending_conn->auth.key ? kr_key_get(pending_conn->auth.key) : NULL;
	kr_auth_mask_ring_key(&pending_conn->auth, greeting->mask);
	greeting->id = frame->header.id;
	greeting->fields = kr_xmalloc(frame->header.fields_length + 1);
	memcpy(greeting->fields, frame->fields, frame->header.fields_length);
	if (kr_msg_decode(KR_MSG_HELLO, false, greeting->fields, frame->header.fields_length, &msg, &greeting->arena)) {
		refuse(greeting, -EPROTO, "its HELLO cannot be decoded");
		return;
	}
	greeting->hello = msg.hello_request;
	if (hello->proto_min > KR_PROTO_VERSION || hello->proto_max < KR_PROTO_VERSION) {
		refuse(greeting, -EPROTONOSUPPORT,
			"it speaks another version of the protocol (install the same kairan on both)");
		return;
	}
	if (hello->must) {
		refuse(greeting, -EPROTONOSUPPORT,
			"it needs features that this server lacks (install the same kairan on both)");
		return;
	}
	if (strlen(hello->ring) > KR_RING_NAME_MAX) {
		refuse(greeting, -EINVAL, "the name of its ring is too long");
		return;
	}
	session = resumable(greeting);
	if (session)
		session->heard_ns = kr_clock_ns(); /* it lives: not to be lost while its HELLO is worked on */
	pending_conn->busy = true;
	kr_conn_pause(pending_conn->conn);
	kr_job_start(pending_conn->server, &greeting->job, walk, walked);
}

/* --- on a session ----------------------------------------------------------------------------- */

static void handle_ping(struct kr_request *request)
{
	struct kr_session *session = request->session;

	/* On this connection the node has received whatever we said long before it said this. */
	kr_reply_cache_prune(&session->replies, kr_clock_ns() - KEEP_REPLIES_MS * KR_NS_PER_MS);
	now(&request->reply.ping_reply.now);
	kr_request_reply_job(request);
}

static void handle_backlog(struct kr_request *request)
{
	const struct kr_backlog_request *backlog = &request->msg.backlog_request;
	struct kr_session *session = request->session;

	/* Numbers of people's, and of JSON. */
	session->unflushed = KR_MIN(backlog->unflushed, (uint64_t)INT64_MAX);
	session->refused = KR_MIN(backlog->refused, session->unflushed);
	kr_request_reply_job(request);
}

static void handle_limits(struct kr_request *request)
{
	struct kr_export_info info;

	kr_export_info(request->server->export, &info);
	request->reply.limits_reply.file_max = info.file_max;
	kr_request_reply_job(request);
}

static void handle_goodbye(struct kr_request *request)
{
	struct kr_session *session = kr_session_get(request->session);

	kr_request_reply_job(request);
	kr_session_end(session, KR_SESSION_LEFT);
	kr_session_put(session);
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
	if (!session->dead && !session->replay)
		last = kr_grace_node_done(&server->sessions->grace, session->node_id);
	kr_request_reply_job(request);
	if (last)
		server->sessions->hooks.end_grace(server);
}

static void handle_reclaim_done(struct kr_request *request)
{
	request->cancel = NULL;
	/* A restarted server takes who is not recorded for late. */
	if (request->session->recorded || request->session->unjudged)
		reclaimed(request, 0);
	else
		kr_session_record(request->session, reclaimed, request);
}

void kr_hello_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_PING, handle_ping, KR_HANDLER_IN_GRACE);
	kr_server_on(server, KR_MSG_BACKLOG, handle_backlog, KR_HANDLER_IN_GRACE);
	kr_server_on(server, KR_MSG_LIMITS, handle_limits, KR_HANDLER_IN_GRACE);
	kr_server_on(server, KR_MSG_GOODBYE, handle_goodbye, KR_HANDLER_IN_GRACE);
	kr_server_on(server, KR_MSG_CANCEL, handle_cancel, KR_HANDLER_IN_GRACE);
	kr_server_on(server, KR_MSG_RECLAIM_DONE, handle_reclaim_done, KR_HANDLER_IN_GRACE);
}
