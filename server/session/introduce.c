/* See introduce.h.
 *
 * The secret of a job follows from the export's secret and the job's user, name and head.  So the server need not keep
 * it, a server that has started anew knows it, and no two heads have the same.  Who has overheard the head of another
 * user's job and names it as its own gets another secret. */
#include "server/session/introduce.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/base/state.h"
#include "server/session/introductions.h"
#include "server/session/session.h"

void kr_introduce_init(struct kr_server *server)
{
	server->sessions->introductions = kr_xcalloc(1, sizeof(struct kr_introductions));
	kr_introductions_init(server->sessions->introductions, server->lease_ms * KR_NS_PER_MS, server->instance > 1,
		server->started_ns);
}

void kr_introduce_fini(struct kr_server *server)
{
	if (server->sessions->introductions)
		kr_introductions_fini(server->sessions->introductions);
	free(server->sessions->introductions);
}

static void make_secret(const struct kr_server *server, const struct kr_introduction *job, uint8_t ret_secret[32])
{
	static const char label[] = "kairan job secret";
	const struct kr_state_facts *facts = kr_state_facts(server->state);
	crypto_generichash_state state;

	crypto_generichash_init(&state, facts->secret, sizeof(facts->secret), 32);
	crypto_generichash_update(&state, (const uint8_t *)label, sizeof(label));
	crypto_generichash_update(&state, (const uint8_t *)&job->uid, sizeof(job->uid));
	crypto_generichash_update(&state, job->head, sizeof(job->head));
	crypto_generichash_update(&state, (const uint8_t *)job->job, strlen(job->job));
	crypto_generichash_final(&state, ret_secret, 32);
	sodium_memzero(&state, sizeof(state));
}

static void reply_job(const struct kr_pending_conn *pending_conn, const struct kr_introduction *job, bool is_head,
	struct kr_introduce_reply *reply)
{
	reply->is_head = is_head;
	reply->node = job->node;
	reply->address = job->address;
	reply->port = job->port;
	if (!is_head && !job->port)
		return;
	make_secret(pending_conn->server, job, reply->secret);
	kr_auth_mask_ring_key(&pending_conn->auth, reply->secret);
}

/* The user: of a user's key or of MUNGE; a node may name one. */
static uint32_t uid_of(const struct kr_pending_conn *pending_conn, const struct kr_introduce_request *request)
{
	const struct kr_key *key = pending_conn->auth.key;

	return key && key->owner.kind == KR_KEY_USER ? key->owner.uid : request->uid;
}

static int introduce(struct kr_pending_conn *pending_conn, const struct kr_introduce_request *request,
	struct kr_introduce_reply *reply)
{
	struct kr_introductions *table = pending_conn->server->sessions->introductions;
	const struct kr_introduction *job;
	int err = kr_introduce(table, request, uid_of(pending_conn, request), kr_clock_ns(), &job);

	if (err < 0) {
		kr_log_warn("node %s (%s) gets no place in job %s: %s", request->node, kr_conn_peer(pending_conn->conn),
			request->job, kr_fail_reason());
		return err;
	}
	if (job && !request->port && kr_introduction_is_head(job, request))
		kr_log_info("node %s (%s) is the head of job %s of user %u", job->node,
			kr_conn_peer(pending_conn->conn), job->job, job->uid);
	else if (request->flags & KR_INTRODUCE_LEAVE)
		kr_log_info("job %s has ended at node %s", request->job, request->node);
	*reply = (struct kr_introduce_reply){.node = "", .address = "", .lease_ms = pending_conn->server->lease_ms};
	if (job)
		reply_job(pending_conn, job, kr_introduction_is_head(job, request), reply);
	return 0;
}

void kr_introduce_answer(struct kr_pending_conn *pending_conn, const struct kr_frame *frame)
{
	const struct kr_frame_header *header = &frame->header;
	struct kr_introduce_reply reply;
	union kr_any_msg msg;
	int err = kr_msg_decode(KR_MSG_INTRODUCE, false, frame->fields, header->fields_length, &msg, NULL);

	err = err < 0 ? -EPROTO : introduce(pending_conn, &msg.introduce_request, &reply);
	kr_conn_reply(pending_conn->conn, KR_MSG_INTRODUCE, header->id, 0, err, err < 0 ? NULL : &reply, NULL, 0);
	sodium_memzero(&reply, sizeof(reply));
	pending_conn->since_ns = kr_clock_ns();
}
