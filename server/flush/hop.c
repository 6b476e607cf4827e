/* Ring connections at the server (see hop.h). */
#include "server/flush/hop.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/verbs/verbs.h"
#include "server/flush/data_state.h"
#include "server/flush/round_stream.h"
#include "server/session/listen.h"
#include "server/session/trust.h"

struct kr_hop *kr_hop_get(struct kr_hop *hop)
{
	hop->references++;
	return hop;
}

void kr_hop_put(struct kr_hop *hop)
{
	if (hop && --hop->references == 0)
		free(hop);
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_hop *hop = kr_conn_context(conn);

	switch (frame->header.type) {
	case KR_MSG_PULL:
		hop->data->hooks.pull(hop, frame);
		break;
	case KR_MSG_STREAM:
		kr_round_stream_begin(hop, frame);
		break;
	case KR_MSG_EXTENT:
		kr_round_stream_extent(hop, frame);
		break;
	case KR_MSG_STREAM_END:
		kr_round_stream_end(hop, frame);
		break;
	case KR_MSG_HOP_VERBS:
		kr_verbs_answer(hop->data->verbs, conn, frame);
		break;
	default:
		if (!(frame->header.flags & KR_FRAME_ONEWAY))
			kr_conn_reply(conn, frame->header.type, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
	}
}

static void on_drain(struct kr_conn *conn)
{
	struct kr_hop *hop = kr_conn_context(conn);

	hop->data->hooks.drained(hop);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_hop *hop = kr_conn_context(conn);

	if (err)
		kr_log_debug("ring connection of %s ended: %s", kr_conn_peer(conn), reason);
	hop->conn = NULL;
	kr_list_remove(&hop->link);
	kr_round_stream_hop_closed(hop);
	hop->data->hooks.closed(hop);
	kr_hop_put(hop);
}

static const struct kr_conn_handler hop_handler = {.on_frame = on_frame, .on_drain = on_drain, .on_closed = on_closed};

static size_t count_of(const struct kr_data *data, uint32_t node)
{
	struct kr_hop *hop;
	size_t count = 0;

	KR_LIST_FOR_EACH(hop, &data->hops, link)
		count += hop->node == node;
	return count;
}

/* Of all sessions of SESSION's user. */
static size_t count_of_user(const struct kr_data *data, const struct kr_session *session)
{
	const struct kr_hop *hop;
	size_t count = 0;

	KR_LIST_FOR_EACH(hop, &data->hops, link) {
		const struct kr_session *other = kr_session_find(data->server, hop->session);

		count += other && kr_trust_same_owner(other->trust.key, session->trust.key);
	}
	return count;
}

/* 0, or why this node of that session may have no (further) ring connection. */
static int check_caller(struct kr_data *data, uint32_t node, uint64_t id)
{
	struct kr_session *session = kr_session_find(data->server, id);

	if (data->stopping || !session || session->dead || session->node != node)
		return kr_fail(-ENOTCONN, "its session has ended");
	if (!kr_trust_accepts(data->server, session->trust.key))
		return kr_fail(-EKEYREJECTED, "the key of its session is not accepted any more");
	if (count_of(data, node) >= KR_HOPS_PER_NODE)
		return kr_fail(-EAGAIN, "too many connections of one node");
	if (kr_trust_is_user(session) && count_of(data, node) >= KR_HOPS_ALWAYS &&
		count_of_user(data, session) >= KR_HOPS_PER_USER)
		return kr_fail(-EAGAIN, "too many connections of one user");
	return 0;
}

static bool refuse(struct kr_pending_conn *pending_conn, const struct kr_frame *frame, int err)
{
	kr_log_warn("ring connection from %s refused: %s", kr_conn_peer(pending_conn->conn), kr_fail_reason());
	if (!(frame->header.flags & KR_FRAME_ONEWAY))
		kr_conn_reply(pending_conn->conn, frame->header.type, frame->header.id, 0, err, NULL, NULL, 0);
	return false;
}

static bool hop_hello(struct kr_server *server, struct kr_pending_conn *pending_conn, const struct kr_frame *frame)
{
	struct kr_hop_hello_reply reply;
	struct kr_fresh fresh;
	union kr_any_msg msg;
	const struct kr_hop_hello_request *hello = &msg.hop_hello_request;
	int err = kr_msg_decode(KR_MSG_HOP_HELLO, false, frame->fields, frame->header.fields_length, &msg, NULL);

	kr_fresh_make(&fresh);
	if (err)
		err = kr_fail(-EPROTO, "its HOP_HELLO cannot be decoded (is it of another version?)");
	else if (hello->session != hello->caller)
		err = kr_fail(-ENOTCONN, "its session has ended");
	else
		err = check_caller(server->data, hello->node, hello->caller);
	if (!err)
		err = kr_pair_challenge(
			&pending_conn->pair, hello, server->data->ring_key, kr_trust_security(server), &fresh, &reply);
	sodium_memzero(&fresh, sizeof(fresh));
	if (err)
		return refuse(pending_conn, frame, err);
	pending_conn->hop_node = hello->node;
	pending_conn->hop_session = hello->caller;
	kr_conn_reply(pending_conn->conn, KR_MSG_HOP_HELLO, frame->header.id, 0, 0, &reply, NULL, 0);
	return true;
}

static void accept_hop(struct kr_data *data, uint32_t node, uint64_t session, struct kr_conn *conn)
{
	struct kr_hop *hop = kr_xcalloc(1, sizeof *hop);

	hop->data = data;
	hop->conn = conn;
	hop->node = node;
	hop->session = session;
	hop->references = 1;
	kr_list_init(&hop->round_streams);
	kr_list_init(&hop->pulls);
	kr_list_append(&data->hops, &hop->link);
	kr_conn_set_ring(conn);
	kr_conn_set_context(conn, hop);
	kr_conn_set_handler(conn, &hop_handler);
}

static bool hop_prove(struct kr_server *server, struct kr_pending_conn *pending_conn, const struct kr_frame *frame)
{
	const uint32_t node = pending_conn->hop_node;
	struct kr_seal_keys keys;
	const uint64_t session = pending_conn->hop_session;
	struct kr_conn *conn;
	union kr_any_msg msg;
	int err = kr_msg_decode(KR_MSG_HOP_PROVE, false, frame->fields, frame->header.fields_length, &msg, NULL);

	if (err)
		err = kr_fail(-EPROTO, "its HOP_PROVE cannot be decoded");
	else
		err = kr_pair_verify(&pending_conn->pair, &msg.hop_prove_request, &keys);
	if (!err)
		err = check_caller(server->data, node, session);
	if (err)
		return refuse(pending_conn, frame, err);
	conn = kr_pending_conn_take(pending_conn);
	kr_conn_seal(conn, &keys);
	sodium_memzero(&keys, sizeof(keys));
	accept_hop(server->data, node, session, conn);
	kr_conn_reply(conn, KR_MSG_HOP_PROVE, frame->header.id, 0, 0, NULL, NULL, 0);
	return true;
}

void kr_hop_close_all(struct kr_data *data, uint32_t node)
{
	struct kr_hop *hop;

	KR_LIST_FOR_EACH(hop, &data->hops, link) {
		if (node == 0 || hop->node == node)
			kr_conn_close(hop->conn, false);
	}
}

static void ring_cut(struct kr_session *session)
{
	kr_hop_close_all(session->server->data, session->node);
}

void kr_hops_register(struct kr_data *data)
{
	data->server->sessions->hooks.ring_cut = ring_cut;
	data->server->sessions->hooks.hop_hello = hop_hello;
	data->server->sessions->hooks.hop_prove = hop_prove;
}
