/* Connections over loopback: both ends in one loop, or one end a bare socket that misbehaves. */
#ifndef KR_TEST_CONN_FIXTURE_H
#define KR_TEST_CONN_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rpc/conn.h"
#include "common/base/util.h"

enum { FRAMES_MAX = 2000 };

/* What one end has seen. */
struct side {
	struct kr_conn *conn; /* NULL when gone */
	size_t frames;
	struct kr_frame_header headers[FRAMES_MAX];
	uint64_t offsets[FRAMES_MAX], checksums[FRAMES_MAX], extents;
	uint64_t data_bytes;
	unsigned drains, closed;
	int err;
	char reason[256];
	void (*hook)(struct side *side, const struct kr_frame *frame);
};

/* What the callbacks of requests have seen. */
struct answers {
	unsigned count, more;
	int last_err;
	uint64_t blocks[64], bytes;
	char json[256];
	void (*hook)(struct answers *answers);
	struct side *side;
	uint64_t other_id;
};

static const char *listen_host = "127.0.0.1";
static uv_loop_t loop;
static uv_tcp_t listener;
static uv_timer_t wake;
static struct sockaddr_in address;
static struct side server, client;
static int accept_status;

static inline void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct side *side = kr_conn_context(conn);

	assert_true(side->frames < FRAMES_MAX);
	side->headers[side->frames++] = frame->header;
	if (frame->header.type == KR_MSG_EXTENT) {
		struct kr_extent_request extent;
		struct kr_arena arena = {0};

		assert_int_equal(kr_msg_decode(KR_MSG_EXTENT, false, frame->fields, frame->header.fields_length,
					 &extent, &arena),
			0);
		side->offsets[side->extents] = extent.offset;
		side->checksums[side->extents++] = extent.checksum;
		assert_int_equal(frame->data ? frame->data->length : 0, frame->header.data_length);
		assert_int_equal(kr_checksum(frame->data ? frame->data->data : NULL, frame->header.data_length),
			extent.checksum);
	}
	side->data_bytes += frame->header.data_length;
	if (side->hook)
		side->hook(side, frame);
}

static inline void on_drain(struct kr_conn *conn)
{
	struct side *side = kr_conn_context(conn);

	assert_true(kr_conn_queued(conn) < KR_CONN_LOW_WATER);
	side->drains++;
}

static inline void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct side *side = kr_conn_context(conn);

	assert_ptr_equal(side->conn, conn);
	side->conn = NULL;
	side->closed++;
	side->err = err;
	snprintf(side->reason, sizeof(side->reason), "%s", reason);
}

static const struct kr_conn_handler handler = {on_frame, on_drain, on_closed};

static inline void on_connection(uv_stream_t *stream, int status)
{
	accept_status = status;
	if (status == 0 && !server.conn)
		assert_int_equal(kr_conn_accept(stream, &handler, &server, &server.conn), 0);
}

static inline void on_wake(uv_timer_t *timer)
{
	(void)timer;
}

/* Turns the loop until CONDITION, which must come true within a minute, also on a busy machine. */
#define RUN_UNTIL(condition) \
	do { \
		uint64_t deadline_ = kr_clock_ns() + 60 * KR_NS_PER_S; \
		while (!(condition)) { \
			assert_true(kr_clock_ns() < deadline_); \
			uv_run(&loop, UV_RUN_ONCE); \
		} \
	} while (0)

static inline void run_a_little(void)
{
	for (int i = 0; i < 20; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static inline int set_up(void **state)
{
	int size = sizeof(address);

	(void)state;
	memset(&server, 0, sizeof(server));
	memset(&client, 0, sizeof(client));
	accept_status = 0;
	uv_loop_init(&loop);
	uv_timer_init(&loop, &wake);
	uv_timer_start(&wake, on_wake, 5, 5);
	uv_tcp_init(&loop, &listener);
	uv_ip4_addr(listen_host, 0, &address);
	uv_tcp_bind(&listener, (const struct sockaddr *)&address, 0);
	uv_listen((uv_stream_t *)&listener, 16, on_connection);
	uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &size);
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	if (client.conn)
		kr_conn_close(client.conn, false);
	if (server.conn)
		kr_conn_close(server.conn, false);
	uv_close((uv_handle_t *)&listener, NULL);
	uv_close((uv_handle_t *)&wake, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&loop) != 0 || kr_buf_bytes_in_use() != 0)
		return -1;
	return 0;
}

static inline void connect_both(void)
{
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&address, &handler, &client, &client.conn), 0);
	RUN_UNTIL(server.conn);
}

static inline int connect_bare(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	RUN_UNTIL(server.conn);
	return fd;
}

static inline void on_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct answers *answers = context;

	if (more)
		answers->more++;
	answers->last_err = err;
	answers->bytes += data ? data->length : 0;
	if (answers->count < KR_ARRAY_SIZE(answers->blocks) && reply)
		answers->blocks[answers->count] = ((const struct kr_pull_reply *)reply)->block;
	answers->count++;
	if (answers->hook)
		answers->hook(answers);
}

static inline void on_status_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	const struct kr_status_reply *status = reply;
	struct answers *answers = context;

	(void)data;
	(void)more;
	answers->last_err = err;
	if (status)
		snprintf(answers->json, sizeof(answers->json), "%.*s", (int)status->json.length,
			(const char *)status->json.bytes);
	answers->count++;
}

static const struct kr_fid some_fid __attribute__((unused)) = {.length = 3, .bytes = {1, 2, 3}};

static inline uint64_t ping(struct side *side, struct answers *answers)
{
	return kr_conn_request(side->conn, KR_MSG_PING, NULL, NULL, 0, on_answer, answers);
}

static inline void answer_ping(struct side *side, const struct kr_frame *frame)
{
	struct kr_ping_reply reply = {{0, 0}};

	if (frame->header.type == KR_MSG_PING)
		kr_conn_reply(side->conn, KR_MSG_PING, frame->header.id, 0, 0, &reply, NULL, 0);
}

/* LENGTH bytes that depend on NUMBER, in PIECES slices of one buffer. */
static inline void send_extent(struct side *side, uint64_t number, size_t length, size_t pieces)
{
	struct kr_extent_request extent = {.stream = 1, .offset = number};
	struct kr_slice slices[8];
	struct kr_buf *buf = kr_buf_new(length);

	for (size_t i = 0; i < length; i++)
		buf->data[i] = (uint8_t)(i * 7 + number * 13 + (i >> 8));
	buf->length = length;
	extent.checksum = kr_checksum(buf->data, length);
	for (size_t i = 0; i < pieces; i++) {
		size_t from = length * i / pieces, to = length * (i + 1) / pieces;

		slices[i] = (struct kr_slice){buf, from, to - from};
	}
	assert_int_equal(kr_conn_oneway(side->conn, KR_MSG_EXTENT, &extent, slices, pieces), 0);
	kr_buf_put(buf);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
