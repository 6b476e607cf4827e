/* Ring connections at the server (see hop.h). */
#include "server/hop.h"

#include <errno.h>
#include <stdlib.h>

#include "common/log.h"
#include "server/data_priv.h"
#include "server/feed.h"
#include "server/intake.h"

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
		kr_feed_pull(hop, frame);
		break;
	case KR_MSG_STREAM:
		kr_intake_stream(hop, frame);
		break;
	case KR_MSG_EXTENT:
		kr_intake_extent(hop, frame);
		break;
	case KR_MSG_STREAM_END:
		kr_intake_end(hop, frame);
		break;
	default:
		if (!(frame->header.flags & KR_FRAME_ONEWAY))
			kr_conn_reply(conn, frame->header.type, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
	}
}

static void on_drain(struct kr_conn *conn)
{
	kr_feed_go_on(kr_conn_context(conn));
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_hop *hop = kr_conn_context(conn);

	if (err)
		kr_log_debug("ring connection of %s ended: %s", kr_conn_peer(conn), reason);
	hop->conn = NULL;
	kr_list_remove(&hop->link);
	kr_intake_hop_closed(hop);
	kr_feed_hop_closed(hop);
	kr_hop_put(hop);
}

static const struct kr_conn_handler hop_handler = { .on_frame = on_frame, .on_drain = on_drain, .on_closed = on_closed };

/* A connection that said the wrong thing: what is left of it is ignored. */
static void ignore_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn;
	(void)frame;
}
static void ignore_closed(struct kr_conn *conn, int err, const char *reason)
{
	(void)conn;
	(void)err;
	(void)reason;
}
static const struct kr_conn_handler refused_handler = { .on_frame = ignore_frame, .on_closed = ignore_closed };

static bool token_matches(const uint8_t a[16], const uint8_t b[16])
{
	unsigned difference = 0;

	for (int i = 0; i < 16; i++)
		difference |= (unsigned)(a[i] ^ b[i]);
	return difference == 0;
}

static size_t count_of(const struct kr_data *data, uint32_t node)
{
	struct kr_hop *hop;
	size_t count = 0;

	KR_LIST_FOR_EACH(hop, &data->hops, link)
		count += hop->node == node;
	return count;
}

/* 0, or with which error HELLO is refused. */
static int check_hello(struct kr_data *data, const struct kr_hop_hello_request *hello, const char **ret_why)
{
	struct kr_session *session = kr_session_find(data->server, hello->session);

	if (hello->proto != KR_PROTO_VERSION) {
		*ret_why = "another protocol version";
		return -EPROTONOSUPPORT;
	}
	if (!token_matches(hello->token, data->token)) {
		*ret_why = "the token does not match";
		return -EKEYREJECTED;
	}
	if (!session || session->dead || session->node != hello->node) {
		*ret_why = "the session has ended";
		return -ENOTCONN;
	}
	if (count_of(data, hello->node) >= KR_HOPS_PER_NODE) {
		*ret_why = "too many connections of one node";
		return -EAGAIN;
	}
	return 0;
}

void kr_data_accept_hop(struct kr_data *data, struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_hop_hello_reply reply = { .proto = KR_PROTO_VERSION };
	struct kr_arena arena = { 0 };
	union kr_any_msg msg;
	struct kr_hop *hop;
	const char *why = "it cannot be decoded";
	int err = kr_msg_decode(KR_MSG_HOP_HELLO, false, frame->fields, frame->header.fields_length, &msg, &arena);

	kr_arena_fini(&arena);
	err = err || data->stopping ? -EPROTO : check_hello(data, &msg.hop_hello_request, &why);
	if (err) {
		kr_log_warn("ring connection from %s refused: %s", kr_conn_peer(conn), why);
		kr_conn_set_handler(conn, &refused_handler);
		kr_conn_reply(conn, KR_MSG_HOP_HELLO, frame->header.id, 0, err, NULL, NULL, 0);
		kr_conn_close(conn, true);
		return;
	}
	hop = kr_xcalloc(1, sizeof *hop);
	hop->data = data;
	hop->conn = conn;
	hop->node = msg.hop_hello_request.node;
	hop->references = 1;
	kr_list_init(&hop->intakes);
	kr_list_init(&hop->pulls);
	kr_list_append(&data->hops, &hop->link);
	kr_conn_set_context(conn, hop);
	kr_conn_set_handler(conn, &hop_handler);
	kr_conn_reply(conn, KR_MSG_HOP_HELLO, frame->header.id, 0, 0, &reply, NULL, 0);
}

void kr_hop_close_all(struct kr_data *data, uint32_t node)
{
	struct kr_hop *hop;

	KR_LIST_FOR_EACH(hop, &data->hops, link) {
		if (node == 0 || hop->node == node)
			kr_conn_close(hop->conn, false);
	}
}
