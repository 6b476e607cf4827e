/* The server's side of the handshake by MUNGE: see trust_munge.h. */
#include "server/session/trust_munge.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/auth/auth_munge.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/base/options.h"
#include "server/session/trust.h"

/* A credential on its way through the pool. */
struct proof {
	struct kr_job job;
	struct kr_pending_conn *pending_conn;
	uint64_t id;
	char *credential;    /* the client's, then ours */
	struct kr_auth auth; /* the pending conn's, who waits */
	struct kr_seal_keys keys;
	int err;
	char reason[256];
};

static void free_proof(struct proof *proof)
{
	kr_auth_fini(&proof->auth);
	free(proof->credential);
	sodium_memzero(proof, sizeof(*proof));
	free(proof);
}

static int check(struct proof *proof)
{
	const char *socket = proof->job.server->options->munge_socket;
	uint8_t payload[KR_MUNGE_PAYLOAD], own[KR_MUNGE_PAYLOAD], random[KR_SECRET];
	char *credential = NULL;
	uint32_t uid = 0;
	int err = kr_munge_decode(socket, proof->credential, &uid, payload);

	randombytes_buf(random, sizeof(random));
	if (!err)
		err = kr_auth_munge_verify(&proof->auth, uid, payload, random, own, &proof->keys);
	if (!err)
		err = kr_munge_encode(socket, uid, own, &credential);
	sodium_memzero(payload, sizeof(payload));
	sodium_memzero(own, sizeof(own));
	sodium_memzero(random, sizeof(random));
	if (err)
		return err;
	free(proof->credential);
	proof->credential = credential;
	return 0;
}

static void run(struct kr_job *job)
{
	struct proof *proof = KR_CONTAINER_OF(job, struct proof, job);

	proof->err = check(proof);
	if (proof->err)
		snprintf(proof->reason, sizeof(proof->reason), "%s", kr_fail_reason());
}

static void refused(struct proof *proof)
{
	struct kr_conn *conn = kr_pending_conn_take(proof->pending_conn);

	if (conn) {
		kr_log_warn("%s refused: %s", kr_conn_peer(conn), proof->reason);
		kr_conn_reply(conn, KR_MSG_AUTH_MUNGE_PROVE, proof->id, 0, proof->err, NULL, NULL, 0);
		kr_conn_close(conn, true);
	}
}

static void done(struct kr_job *job)
{
	struct proof *proof = KR_CONTAINER_OF(job, struct proof, job);
	struct kr_pending_conn *pending_conn = proof->pending_conn;
	struct kr_auth_munge_prove_reply reply = {.credential = proof->credential};

	if (job->server->stopping || !pending_conn->conn) {
		kr_pending_conn_take(pending_conn);
	} else if (proof->err) {
		refused(proof);
	} else {
		pending_conn->auth = proof->auth; /* it moves, with its key */
		proof->auth = (struct kr_auth){0};
		pending_conn->busy = false;
		kr_conn_reply(pending_conn->conn, KR_MSG_AUTH_MUNGE_PROVE, proof->id, 0, 0, &reply, NULL, 0);
		kr_conn_seal(pending_conn->conn, &proof->keys); /* the reply was the last thing in clear */
		kr_conn_resume(pending_conn->conn);
	}
	free_proof(proof);
}

static void start_proof(struct kr_pending_conn *pending_conn, uint64_t id, const char *credential)
{
	struct proof *proof = kr_xcalloc(1, sizeof(*proof));

	proof->pending_conn = pending_conn;
	proof->id = id;
	proof->credential = kr_xstrdup(credential);
	proof->auth = pending_conn->auth;
	kr_auth_init(&pending_conn->auth);
	pending_conn->busy = true;
	kr_conn_pause(pending_conn->conn);
	kr_job_start(pending_conn->server, &proof->job, run, done);
}

static int challenge(struct kr_pending_conn *pending_conn, const struct kr_auth_munge_request *request,
	struct kr_auth_munge_reply *ret_reply)
{
	const uint64_t ns = kr_clock_real_ns();
	const struct kr_time now = {.sec = (int64_t)(ns / KR_NS_PER_S), .nsec = (uint32_t)(ns % KR_NS_PER_S)};
	struct kr_fresh fresh;
	int err;

	kr_fresh_make(&fresh);
	err = kr_auth_munge_challenge(
		&pending_conn->auth, kr_trust_security(pending_conn->server), request, &fresh, now, ret_reply);
	sodium_memzero(&fresh, sizeof(fresh));
	return err;
}

bool kr_trust_munge(struct kr_pending_conn *pending_conn, const struct kr_frame *frame)
{
	const uint16_t type = frame->header.type;
	struct kr_auth_munge_reply reply;
	struct kr_arena arena = {0};
	union kr_any_msg msg;
	bool answered = false;
	int err;

	if (frame->header.flags & (KR_FRAME_ONEWAY | KR_FRAME_REPLY))
		return false;
	if (!pending_conn->server->options->munge)
		err = kr_fail(-EOPNOTSUPP, "it comes with MUNGE, which we do not do (--munge)");
	else if (kr_msg_decode(type, false, frame->fields, frame->header.fields_length, &msg, &arena))
		err = kr_fail(-EPROTO, "its %s cannot be decoded", kr_msg_name(type));
	else if (type == KR_MSG_AUTH_MUNGE)
		err = challenge(pending_conn, &msg.auth_munge_request, &reply);
	else if (pending_conn->auth.state != KR_AUTH_CHALLENGED || pending_conn->auth.key)
		err = kr_fail(-EPROTO, "a message of the handshake came out of turn");
	else
		err = 0;
	if (!err && type == KR_MSG_AUTH_MUNGE_PROVE) {
		start_proof(pending_conn, frame->header.id, msg.auth_munge_prove_request.credential);
		answered = true;
	}
	kr_arena_fini(&arena);
	if (answered)
		return true;
	if (err)
		kr_log_warn("%s refused: %s", kr_conn_peer(pending_conn->conn), kr_fail_reason());
	kr_conn_reply(pending_conn->conn, type, frame->header.id, 0, err, err ? NULL : &reply, NULL, 0);
	return err == 0;
}
