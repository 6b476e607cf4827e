/* A node played by a test: connects to a server over loopback, sends what the test says, and keeps all that comes back.
 * Server and nodes share the test's event loop; helpers run it until something has happened (or fail after a while).
 */
#ifndef KR_TEST_SCRIPTED_NODE_H
#define KR_TEST_SCRIPTED_NODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/conn.h"
#include "common/base/util.h"

enum { NODE_ANSWERS_MAX = 512, NODE_ASKED_MAX = 1024, NODE_WAIT_S = 30 };

struct node_answer {
	uint64_t id;
	uint32_t replies; /* how many have come: must end as 1 */
	int err;
	union kr_any_msg msg; /* its strings are gone */
	size_t data_length;
};
struct node_asked {
	uint16_t type, flags;
	uint64_t id;
	bool answered;
	union kr_any_msg msg;
};
struct node {
	uv_loop_t *loop;
	uint16_t port;
	struct kr_conn *conn;
	bool closed;
	uint8_t node_id[16];
	uint64_t next_id;
	uint32_t flags;    /* for HELLO */
	bool keeps_stable; /* it leaves STABLE unanswered */
	bool forgets;      /* it answers INVALIDATE at once */
	struct kr_hello_reply hello;
	struct node_answer answers[NODE_ANSWERS_MAX];
	size_t answer_count;
	struct node_asked asked[NODE_ASKED_MAX];
	size_t asked_count;
};

static inline bool node_wait_for(uv_loop_t *loop, bool (*happened)(void *), void *context)
{
	uint64_t deadline = kr_clock_ns() + NODE_WAIT_S * KR_NS_PER_S;

	while (!happened(context)) {
		if (kr_clock_ns() > deadline)
			return false;
		uv_run(loop, UV_RUN_ONCE); /* the server's tick wakes it at least 4 times a second */
	}
	return true;
}

static inline void node_on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct node *node = kr_conn_context(conn);
	struct node_asked *asked;
	struct kr_arena arena = {0};

	assert_true(node->asked_count < NODE_ASKED_MAX);
	asked = &node->asked[node->asked_count++];
	*asked = (struct node_asked){.type = frame->header.type, .flags = frame->header.flags, .id = frame->header.id};
	assert_int_equal(
		kr_msg_decode(asked->type, false, frame->fields, frame->header.fields_length, &asked->msg, &arena), 0);
	kr_arena_fini(&arena);
	if ((asked->type == KR_MSG_STABLE && !node->keeps_stable) ||
		(asked->type == KR_MSG_INVALIDATE && node->forgets)) {
		asked->answered = true;
		kr_conn_reply(conn, asked->type, asked->id, 0, 0, NULL, NULL, 0);
	}
}

static inline void node_on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct node *node = kr_conn_context(conn);

	(void)err;
	(void)reason;
	if (node && node->conn == conn) {
		node->conn = NULL;
		node->closed = true;
	}
}

static const struct kr_conn_handler node_handler = {node_on_frame, NULL, node_on_closed};

static inline struct node_answer *node_answer(struct node *node, uint64_t id)
{
	for (size_t i = 0; i < node->answer_count; i++) {
		if (node->answers[i].id == id)
			return &node->answers[i];
	}
	return NULL;
}

static inline void node_on_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct node_answer *answer = context;

	(void)more;
	if (err == -ECONNRESET)
		return; /* the connection ended: no answer */
	answer->replies++;
	answer->err = err;
	answer->data_length = data ? data->length : 0;
	if (reply)
		memcpy(&answer->msg, reply, sizeof(answer->msg));
}

static inline void node_connect(struct node *node)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(node->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	node->closed = false;
	assert_int_equal(
		kr_conn_connect(node->loop, (const struct sockaddr *)&address, &node_handler, node, &node->conn), 0);
}

static inline struct node *node_new(uv_loop_t *loop, uint16_t port, uint8_t number)
{
	struct node *node = calloc(1, sizeof(*node));

	node->loop = loop;
	node->port = port;
	memset(node->node_id, number, sizeof(node->node_id));
	node->next_id = 1;
	return node;
}

static inline bool node_is_closed(void *context)
{
	return ((struct node *)context)->closed;
}

/* The connection breaks. */
static inline void node_disconnect(struct node *node)
{
	if (!node->conn)
		return;
	kr_conn_close(node->conn, false);
	assert_true(node_wait_for(node->loop, node_is_closed, node));
}

static inline void node_free(struct node *node)
{
	node_disconnect(node);
	for (size_t i = 0; i < node->answer_count; i++)
		assert_true(node->answers[i].replies <= 1);
	free(node);
}

/* Sends request ID (again, with KR_FRAME_RESEND in FLAGS). */
static inline uint64_t node_send_as(struct node *node, uint64_t id, uint16_t flags, uint16_t type, const void *msg)
{
	struct node_answer *answer = node_answer(node, id);

	if (!answer) {
		assert_true(node->answer_count < NODE_ANSWERS_MAX);
		answer = &node->answers[node->answer_count++];
		*answer = (struct node_answer){.id = id};
	}
	assert_int_equal(kr_conn_request_as(node->conn, id, flags, type, msg, NULL, 0, node_on_reply, answer), 0);
	return id;
}

static inline uint64_t node_send(struct node *node, uint16_t type, const void *msg)
{
	return node_send_as(node, node->next_id++, 0, type, msg);
}

struct node_wait {
	struct node *node;
	uint64_t id;
	uint16_t type;
};

static inline bool node_answered(void *context)
{
	struct node_wait *wait = context;

	return node_answer(wait->node, wait->id)->replies > 0;
}

/* Waits for the answer to ID. */
static inline int node_result(struct node *node, uint64_t id, const union kr_any_msg **ret_msg)
{
	struct node_wait wait = {node, id, 0};

	assert_true(node_wait_for(node->loop, node_answered, &wait));
	if (ret_msg)
		*ret_msg = &node_answer(node, id)->msg;
	return node_answer(node, id)->err;
}

static inline int node_call(struct node *node, uint16_t type, const void *msg, const union kr_any_msg **ret_msg)
{
	return node_result(node, node_send(node, type, msg), ret_msg);
}

static inline bool node_has_unanswered(void *context)
{
	struct node_wait *wait = context;

	for (size_t i = 0; i < wait->node->asked_count; i++) {
		if (wait->node->asked[i].type == wait->type && !wait->node->asked[i].answered)
			return true;
	}
	return false;
}

/* Waits until the server has asked for TYPE; the oldest unanswered one. */
static inline struct node_asked *node_asked(struct node *node, uint16_t type)
{
	struct node_wait wait = {node, 0, type};

	assert_true(node_wait_for(node->loop, node_has_unanswered, &wait));
	for (size_t i = 0;; i++) {
		if (node->asked[i].type == type && !node->asked[i].answered)
			return &node->asked[i];
	}
}

static inline void node_reply(struct node *node, struct node_asked *asked, const void *msg)
{
	asked->answered = true;
	kr_conn_reply(node->conn, asked->type, asked->id, 0, 0, msg, NULL, 0);
}

/* HELLO on a new connection, going on with the former session if RESUME. */
static inline uint64_t node_send_hello(struct node *node, bool resume)
{
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION,
		.proto_max = KR_PROTO_VERSION,
		.node_name = "node",
		.ring_address = "",
		.subdir = "",
		.ring = "",
		.incarnation = 1,
		.session = resume ? node->hello.session : 0,
		.flags = node->flags};

	if (!node->conn)
		node_connect(node);
	memcpy(hello.node_id, node->node_id, 16);
	return node_send(node, KR_MSG_HELLO, &hello);
}

static inline int node_hello(struct node *node, bool resume)
{
	const union kr_any_msg *reply;
	int err = node_result(node, node_send_hello(node, resume), &reply);

	if (!err)
		node->hello = reply->hello_reply;
	return err;
}

#endif
