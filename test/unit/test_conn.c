/* Connections over loopback: both ends in one loop, or one end a bare socket that misbehaves. */
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

#include "common/conn.h"
#include "common/util.h"

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

static uv_loop_t loop;
static uv_tcp_t listener;
static uv_timer_t wake;
static struct sockaddr_in address;
static struct side server, client;
static int accept_status;

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct side *side = kr_conn_context(conn);

	assert_true(side->frames < FRAMES_MAX);
	side->headers[side->frames++] = frame->header;
	if (frame->header.type == KR_MSG_EXTENT) {
		struct kr_extent_request extent;
		struct kr_arena arena = { 0 };

		assert_int_equal(kr_msg_decode(KR_MSG_EXTENT, false, frame->fields, frame->header.fields_length, &extent, &arena), 0);
		side->offsets[side->extents] = extent.offset;
		side->checksums[side->extents++] = extent.checksum;
		assert_int_equal(frame->data ? frame->data->length : 0, frame->header.data_length);
		assert_int_equal(kr_checksum(frame->data ? frame->data->data : NULL, frame->header.data_length), extent.checksum);
	}
	side->data_bytes += frame->header.data_length;
	if (side->hook)
		side->hook(side, frame);
}

static void on_drain(struct kr_conn *conn)
{
	struct side *side = kr_conn_context(conn);

	assert_true(kr_conn_queued(conn) < KR_CONN_LOW_WATER);
	side->drains++;
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct side *side = kr_conn_context(conn);

	assert_ptr_equal(side->conn, conn);
	side->conn = NULL;
	side->closed++;
	side->err = err;
	snprintf(side->reason, sizeof(side->reason), "%s", reason);
}

static const struct kr_conn_handler handler = { on_frame, on_drain, on_closed };

static void on_connection(uv_stream_t *stream, int status)
{
	accept_status = status;
	if (status == 0 && !server.conn)
		assert_int_equal(kr_conn_accept(stream, &handler, &server, &server.conn), 0);
}

static void on_wake(uv_timer_t *timer)
{
	(void)timer;
}

/* Turns the loop until CONDITION, which must come true within ten seconds. */
#define RUN_UNTIL(condition) \
	do { \
		uint64_t deadline_ = kr_clock_ns() + 10 * KR_NS_PER_S; \
		while (!(condition)) { \
			assert_true(kr_clock_ns() < deadline_); \
			uv_run(&loop, UV_RUN_ONCE); \
		} \
	} while (0)

static void run_a_little(void)
{
	for (int i = 0; i < 20; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static int set_up(void **state)
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
	uv_ip4_addr("127.0.0.1", 0, &address);
	uv_tcp_bind(&listener, (const struct sockaddr *)&address, 0);
	uv_listen((uv_stream_t *)&listener, 16, on_connection);
	uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &size);
	return 0;
}

static int tear_down(void **state)
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

static void connect_both(void)
{
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&address, &handler, &client, &client.conn), 0);
	RUN_UNTIL(server.conn);
}

static int connect_bare(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	RUN_UNTIL(server.conn);
	return fd;
}

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
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

static void on_status_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	const struct kr_status_reply *status = reply;
	struct answers *answers = context;

	(void)data;
	(void)more;
	answers->last_err = err;
	if (status)
		snprintf(answers->json, sizeof(answers->json), "%.*s", (int)status->json.length, (const char *)status->json.bytes);
	answers->count++;
}

static const struct kr_fid some_fid = { .length = 3, .bytes = { 1, 2, 3 } };

static uint64_t ping(struct side *side, struct answers *answers)
{
	return kr_conn_request(side->conn, KR_MSG_PING, NULL, NULL, 0, on_answer, answers);
}

static void answer_ping(struct side *side, const struct kr_frame *frame)
{
	struct kr_ping_reply reply = { { 0, 0 } };

	if (frame->header.type == KR_MSG_PING)
		kr_conn_reply(side->conn, KR_MSG_PING, frame->header.id, 0, 0, &reply, NULL, 0);
}

/* LENGTH bytes that depend on NUMBER, in PIECES slices of one buffer. */
static void send_extent(struct side *side, uint64_t number, size_t length, size_t pieces)
{
	struct kr_extent_request extent = { .stream = 1, .offset = number };
	struct kr_slice slices[8];
	struct kr_buf *buf = kr_buf_new(length);

	for (size_t i = 0; i < length; i++)
		buf->data[i] = (uint8_t)(i * 7 + number * 13 + (i >> 8));
	buf->length = length;
	extent.checksum = kr_checksum(buf->data, length);
	for (size_t i = 0; i < pieces; i++) {
		size_t from = length * i / pieces, to = length * (i + 1) / pieces;

		slices[i] = (struct kr_slice){ buf, from, to - from };
	}
	assert_int_equal(kr_conn_oneway(side->conn, KR_MSG_EXTENT, &extent, slices, pieces), 0);
	kr_buf_put(buf);
}

/* --- the good --- */

static void answer_status(struct side *side, const struct kr_frame *frame)
{
	struct kr_status_request request;
	struct kr_arena arena = { 0 };
	struct kr_status_reply reply;
	char text[64];

	assert_int_equal(kr_msg_decode(KR_MSG_STATUS, false, frame->fields, frame->header.fields_length, &request, &arena), 0);
	snprintf(text, sizeof(text), "%s of %s", request.what, request.argument);
	reply.json = (struct kr_bytes){ (const uint8_t *)text, (uint32_t)strlen(text) };
	kr_conn_reply(side->conn, KR_MSG_STATUS, frame->header.id, 0, 0, &reply, NULL, 0);
	kr_arena_fini(&arena);
}

static void a_request_gets_its_reply_in_both_directions(void **state)
{
	struct kr_status_request request = { .what = "flush", .argument = "/a" };
	struct answers up = { 0 }, down = { 0 };
	uint64_t received, sent;

	(void)state;
	connect_both();
	server.hook = client.hook = answer_status;
	assert_true(kr_conn_request(client.conn, KR_MSG_STATUS, &request, NULL, 0, on_status_answer, &up) > 0);
	request.argument = "/b";
	assert_true(kr_conn_request(server.conn, KR_MSG_STATUS, &request, NULL, 0, on_status_answer, &down) > 0);
	RUN_UNTIL(up.count && down.count);
	assert_string_equal(up.json, "flush of /a");
	assert_string_equal(down.json, "flush of /b");
	kr_conn_counters(client.conn, &received, &sent);
	assert_true(received > 0 && sent > 0);
	assert_int_equal(kr_conn_queued(client.conn), 0);
}

static void peers_have_names(void **state)
{
	char host[64], expected[64];

	(void)state;
	connect_both();
	snprintf(expected, sizeof(expected), "127.0.0.1:%u", ntohs(address.sin_port));
	assert_string_equal(kr_conn_peer(client.conn), expected);
	kr_conn_peer_host(server.conn, host, sizeof(host));
	assert_string_equal(host, "127.0.0.1");
	kr_conn_local_host(server.conn, host, sizeof(host));
	assert_string_equal(host, "127.0.0.1");
	assert_true(kr_conn_peer_is_loopback(server.conn));
}

static void frames_arrive_whole_and_in_order(void **state)
{
	unsigned seed = 5;

	(void)state;
	connect_both();
	for (uint64_t i = 0; i < 400; i++) {
		size_t length = i % 3 == 0 ? (size_t)rand_r(&seed) % 64 : (size_t)rand_r(&seed) % (KR_BLOCK_SIZE + 1);

		send_extent(&client, i, length, 1 + i % 7);
	}
	RUN_UNTIL(server.extents == 400);
	for (uint64_t i = 0; i < 400; i++)
		assert_int_equal(server.offsets[i], i);
	assert_int_equal(kr_conn_queued(client.conn), 0);
	assert_int_equal(client.drains, 1);
}

static void answer_in_parts(struct side *side, const struct kr_frame *frame)
{
	struct kr_pull_reply reply = { 0 };

	for (uint64_t i = 0; i < 20; i++) {
		struct kr_buf *buf = kr_buf_new(1000 * i + 1);
		struct kr_slice slice = { buf, 0, 1000 * i + 1 };

		memset(buf->data, (int)i, slice.length);
		buf->length = slice.length;
		reply.block = i;
		kr_conn_reply(side->conn, KR_MSG_PULL, frame->header.id, KR_FRAME_MORE, 0, &reply, &slice, 1);
		kr_buf_put(buf);
	}
	reply.block = 99;
	kr_conn_reply(side->conn, KR_MSG_PULL, frame->header.id, 0, 0, &reply, NULL, 0);
}

static void replies_with_more_keep_the_request_open(void **state)
{
	struct kr_range range = { 0, 20 };
	struct kr_pull_request request = { .file = some_fid, .version = 1, .blocks = { &range, 1 } };
	struct answers answers = { 0 };

	(void)state;
	connect_both();
	server.hook = answer_in_parts;
	assert_true(kr_conn_request(client.conn, KR_MSG_PULL, &request, NULL, 0, on_answer, &answers) > 0);
	RUN_UNTIL(answers.count == 21);
	assert_int_equal(answers.more, 20);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(answers.blocks[i], i);
	assert_int_equal(answers.blocks[20], 99);
	assert_int_equal(answers.bytes, 190020);
	run_a_little();
	assert_int_equal(answers.count, 21);
}

static void refuse(struct side *side, const struct kr_frame *frame)
{
	kr_conn_reply(side->conn, frame->header.type, frame->header.id, 0, -ENOSPC, NULL, NULL, 0);
}

static void a_failed_request_gets_the_error(void **state)
{
	struct answers answers = { 0 };

	(void)state;
	connect_both();
	server.hook = refuse;
	assert_true(ping(&client, &answers) > 0);
	RUN_UNTIL(answers.count);
	assert_int_equal(answers.last_err, -ENOSPC);
}

static void forgotten_requests_are_not_called_back(void **state)
{
	struct answers first = { 0 }, second = { 0 };
	uint64_t id;

	(void)state;
	connect_both();
	server.hook = answer_ping;
	id = ping(&client, &first);
	assert_true(ping(&client, &second) > 0);
	kr_conn_forget(client.conn, id);
	kr_conn_forget(client.conn, 12345);
	RUN_UNTIL(second.count);
	assert_int_equal(first.count, 0);
	assert_non_null(client.conn);
}

static void the_caller_may_choose_ids_and_resend(void **state)
{
	struct answers answers = { 0 };

	(void)state;
	connect_both();
	server.hook = answer_ping;
	assert_int_equal(kr_conn_request_as(client.conn, 777, KR_FRAME_RESEND, KR_MSG_PING, NULL, NULL, 0, on_answer, &answers), 0);
	RUN_UNTIL(answers.count);
	assert_int_equal(server.headers[0].id, 777);
	assert_int_equal(server.headers[0].flags, KR_FRAME_RESEND);
}

static void what_cannot_be_encoded_is_not_sent(void **state)
{
	struct kr_getattr_request request = { .file = { .length = 0 } };
	struct kr_slice slice = { NULL, 0, 1 };
	struct answers answers = { 0 };

	(void)state;
	connect_both();
	assert_int_equal(kr_conn_request(client.conn, KR_MSG_GETATTR, &request, NULL, 0, on_answer, &answers), 0);
	assert_int_equal(kr_conn_oneway(client.conn, 999, &request, NULL, 0), -EINVAL);
	assert_int_equal(kr_conn_oneway(client.conn, KR_MSG_PING, NULL, &slice, 1), -EINVAL);
	assert_int_equal(kr_conn_queued(client.conn), 0);
	kr_conn_close(client.conn, false);
	RUN_UNTIL(!client.conn);
	assert_int_equal(answers.count, 0);
}

static void answer_badly(struct side *side, const struct kr_frame *frame)
{
	struct kr_ping_reply reply = { { 0, 2000000000 } };

	kr_conn_reply(side->conn, KR_MSG_PING, frame->header.id, 0, 0, &reply, NULL, 0);
}

static void a_reply_that_cannot_be_encoded_becomes_a_status(void **state)
{
	struct answers answers = { 0 };

	(void)state;
	connect_both();
	server.hook = answer_badly;
	assert_true(ping(&client, &answers) > 0);
	RUN_UNTIL(answers.count);
	assert_int_equal(answers.last_err, -EINVAL);
}

/* --- back-pressure --- */

static void a_paused_end_delivers_nothing_and_then_all(void **state)
{
	(void)state;
	connect_both();
	kr_conn_pause(server.conn);
	kr_conn_pause(server.conn);
	for (uint64_t i = 0; i < 200; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	run_a_little();
	assert_int_equal(server.frames, 0);
	assert_true(kr_conn_queued(client.conn) > KR_CONN_LOW_WATER);
	assert_int_equal(client.drains, 0);
	kr_conn_resume(server.conn);
	run_a_little();
	assert_int_equal(server.frames, 0);
	kr_conn_resume(server.conn);
	RUN_UNTIL(server.extents == 200);
	assert_int_equal(client.drains, 1);
	assert_int_equal(server.offsets[199], 199);
}

static void pause_after_each(struct side *side, const struct kr_frame *frame)
{
	(void)frame;
	kr_conn_pause(side->conn);
}

static void pausing_inside_a_frame_holds_the_next_one_back(void **state)
{
	(void)state;
	connect_both();
	server.hook = pause_after_each;
	for (uint64_t i = 0; i < 10; i++)
		send_extent(&client, i, 10, 1);
	kr_conn_close(client.conn, true);
	for (size_t i = 1; i <= 10; i++) {
		RUN_UNTIL(server.extents == i);
		run_a_little();
		assert_int_equal(server.extents, i);
		assert_int_equal(server.closed, 0);
		kr_conn_resume(server.conn);
	}
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, 0);
}

/* --- the end --- */

static void a_peaceful_end_is_no_error(void **state)
{
	(void)state;
	connect_both();
	kr_conn_close(client.conn, false);
	assert_non_null(client.conn);
	assert_int_equal(client.closed, 0);
	RUN_UNTIL(client.closed && server.closed);
	assert_int_equal(client.err, 0);
	assert_string_equal(client.reason, "closed");
	assert_int_equal(server.err, 0);
	assert_string_equal(server.reason, "closed by the peer");
}

static void closing_with_flush_sends_what_is_queued(void **state)
{
	(void)state;
	connect_both();
	for (uint64_t i = 0; i < 100; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	assert_true(kr_conn_queued(client.conn) > 0);
	kr_conn_close(client.conn, true);
	kr_conn_close(client.conn, true);
	assert_int_equal(kr_conn_oneway(client.conn, KR_MSG_PING, NULL, NULL, 0), -ECONNRESET);
	RUN_UNTIL(client.closed && server.closed);
	assert_int_equal(server.extents, 100);
	assert_int_equal(server.err, 0);
	assert_int_equal(client.err, 0);
	assert_int_equal(client.closed + server.closed, 2);
}

static void a_flush_survives_what_the_peer_still_sends(void **state)
{
	(void)state;
	connect_both();
	for (uint64_t i = 0; i < 100; i++) {
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
		send_extent(&server, i, KR_BLOCK_SIZE, 1);
	}
	kr_conn_close(client.conn, true);
	RUN_UNTIL(client.closed && server.closed);
	assert_int_equal(server.extents, 100);
	assert_int_equal(client.err, 0);
}

static void closing_while_sending_drops_the_rest(void **state)
{
	(void)state;
	connect_both();
	for (uint64_t i = 0; i < 200; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	kr_conn_close(client.conn, false);
	kr_conn_close(client.conn, true);
	RUN_UNTIL(client.closed && server.closed);
	assert_true(server.extents < 200);
}

static void closing_before_the_connection_stands_is_safe(void **state)
{
	struct answers answers = { 0 };

	(void)state;
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&address, &handler, &client, &client.conn), 0);
	assert_true(ping(&client, &answers) > 0);
	kr_conn_close(client.conn, false);
	RUN_UNTIL(client.closed && server.closed);
	assert_int_equal(answers.last_err, -ECONNRESET);
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&address, &handler, &client, &client.conn), 0);
	assert_int_equal(kr_conn_oneway(client.conn, KR_MSG_PING, NULL, NULL, 0), 0);
	kr_conn_close(client.conn, true);
	RUN_UNTIL(client.closed == 2);
	assert_int_equal(client.err, 0);
	RUN_UNTIL(server.frames == 1);
}

static void forget_the_other(struct answers *answers)
{
	assert_int_equal(answers->side->closed, 0);
	assert_int_equal(ping(answers->side, answers), 0);
	kr_conn_forget(answers->side->conn, answers->other_id);
}

static void unanswered_requests_end_before_the_connection(void **state)
{
	struct answers first = { .hook = forget_the_other, .side = &client }, second = { 0 }, third = { 0 };

	(void)state;
	connect_both();
	assert_true(ping(&client, &first) > 0);
	first.other_id = ping(&client, &second);
	assert_true(ping(&client, &third) > 0);
	kr_conn_close(client.conn, false);
	assert_int_equal(first.count, 0);
	RUN_UNTIL(client.closed);
	assert_int_equal(first.count, 1);
	assert_int_equal(first.last_err, -ECONNRESET);
	assert_int_equal(second.count, 0);
	assert_int_equal(third.count, 1);
}

static void close_at_once(struct side *side, const struct kr_frame *frame)
{
	(void)frame;
	kr_conn_close(side->conn, side->frames % 2 == 0);
}

static void closing_inside_a_frame_ends_delivery(void **state)
{
	(void)state;
	connect_both();
	server.hook = close_at_once;
	for (uint64_t i = 0; i < 50; i++)
		send_extent(&client, i, 100, 1);
	RUN_UNTIL(server.closed && client.closed);
	assert_int_equal(server.frames, 1);
}

static void close_the_side(struct answers *answers)
{
	if (answers->side->conn && answers->last_err == 0)
		kr_conn_close(answers->side->conn, false);
}

static void closing_inside_a_reply_ends_the_others(void **state)
{
	struct answers first = { .hook = close_the_side, .side = &client }, second = { 0 };

	(void)state;
	connect_both();
	server.hook = answer_ping;
	assert_true(ping(&client, &first) > 0);
	assert_true(ping(&client, &second) > 0);
	RUN_UNTIL(client.closed);
	assert_int_equal(first.count, 1);
	assert_int_equal(first.last_err, 0);
	assert_int_equal(second.last_err, -ECONNRESET);
}

static void a_refused_connection_is_told_through_on_closed(void **state)
{
	struct sockaddr_in nobody = address;
	struct answers answers = { 0 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(nobody);

	(void)state;
	nobody.sin_port = 0; /* bound, not listening: nobody else gets this port */
	assert_int_equal(bind(fd, (const struct sockaddr *)&nobody, sizeof(nobody)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&nobody, &size), 0);
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&nobody, &handler, &client, &client.conn), 0);
	assert_true(ping(&client, &answers) > 0);
	RUN_UNTIL(client.closed);
	assert_int_equal(client.err, -ECONNREFUSED);
	assert_int_equal(answers.last_err, -ECONNRESET);
	close(fd);
}

static void a_unix_socket_works_too(void **state)
{
	struct sockaddr_un path = { .sun_family = AF_UNIX };
	struct answers answers = { 0 };
	char host[16], directory[] = "/tmp/kairan-conn-XXXXXX";
	uv_pipe_t pipe;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path.sun_path, sizeof(path.sun_path), "%s/socket", directory);
	uv_pipe_init(&loop, &pipe, 0);
	assert_int_equal(uv_pipe_bind(&pipe, path.sun_path), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&pipe, 4, on_connection), 0);
	server.hook = answer_ping;
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&path, &handler, &client, &client.conn), 0);
	assert_true(ping(&client, &answers) > 0);
	RUN_UNTIL(answers.count);
	assert_int_equal(answers.last_err, 0);
	assert_true(kr_conn_peer_is_loopback(server.conn));
	assert_string_equal(kr_conn_peer(server.conn), "local");
	kr_conn_peer_host(server.conn, host, sizeof(host));
	assert_string_equal(host, "");
	uv_close((uv_handle_t *)&pipe, NULL);
	run_a_little();
	unlink(path.sun_path);
	rmdir(directory);
}

static void a_listener_survives_running_out_of_descriptors(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), next = dup(fd);
	struct answers answers = { 0 };
	struct rlimit old, low;
	char byte;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = (rlim_t)next;
	close(next);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	RUN_UNTIL(recv(fd, &byte, 1, 0) >= 0 || errno != EAGAIN || server.conn);
	assert_null(server.conn);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	close(fd);
	connect_both();
	server.hook = answer_ping;
	assert_true(ping(&client, &answers) > 0);
	RUN_UNTIL(answers.count);
}

/* --- peers that misbehave --- */

static size_t make_frame(uint8_t *bytes, struct kr_frame_header header, size_t body)
{
	kr_frame_header_encode(&header, bytes);
	memset(bytes + KR_FRAME_HEADER, 0, body);
	return KR_FRAME_HEADER + body;
}

static void sends_garbage_and_is_cut_off(const void *bytes, size_t length, const char *reason)
{
	int fd = connect_bare();
	char byte;

	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, -EBADMSG);
	if (reason)
		assert_string_equal(server.reason, reason);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
	server.closed = 0;
}

static void garbage_ends_the_connection_with_one_reason(void **state)
{
	uint8_t bytes[4096];
	unsigned seed = 7;

	(void)state;
	sends_garbage_and_is_cut_off("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 37 - 1,
		"magic 0x47455420 is not kairan's: the peer speaks another protocol");
	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)rand_r(&seed);
		sends_garbage_and_is_cut_off(bytes, sizeof(bytes), NULL);
	}
}

static void lengths_above_the_maximum_end_the_connection(void **state)
{
	uint8_t bytes[64];

	(void)state;
	make_frame(bytes, (struct kr_frame_header){ .type = KR_MSG_PING, .id = 1, .fields_length = 1025 }, 0);
	sends_garbage_and_is_cut_off(bytes, KR_FRAME_HEADER, "frame of type 2: 1025 bytes of fields, at most 1024 are allowed");
	make_frame(bytes, (struct kr_frame_header){ .type = KR_MSG_PING, .id = 1, .data_length = 1 }, 0);
	sends_garbage_and_is_cut_off(bytes, KR_FRAME_HEADER, "frame of type 2: 1 bytes of data, at most 0 are allowed");
	make_frame(bytes, (struct kr_frame_header){ .type = KR_MSG_EXTENT, .data_length = UINT32_MAX }, 0);
	sends_garbage_and_is_cut_off(bytes, KR_FRAME_HEADER,
		"frame of type 103: 4294967295 bytes of data, at most 131072 are allowed");
}

static void a_frame_cut_short_is_an_error(void **state)
{
	uint8_t bytes[64];
	size_t length = make_frame(bytes, (struct kr_frame_header){ .type = KR_MSG_CANCEL, .id = 1, .fields_length = 8 }, 8);

	(void)state;
	for (size_t cut = 1; cut < length; cut++) {
		int fd = connect_bare();

		assert_int_equal(send(fd, bytes, cut, MSG_NOSIGNAL), cut);
		close(fd);
		RUN_UNTIL(server.closed);
		assert_int_equal(server.err, -ECONNRESET);
		assert_int_equal(server.frames, 0);
		server.closed = 0;
	}
}

static void data_cut_short_is_an_error(void **state)
{
	uint8_t bytes[256];
	size_t length = make_frame(bytes, (struct kr_frame_header){ .type = KR_MSG_EXTENT, .flags = KR_FRAME_ONEWAY,
		.fields_length = 24, .data_length = 100000 }, 24 + 50);
	int fd = connect_bare();

	(void)state;
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
	close(fd);
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, -ECONNRESET);
	assert_string_equal(server.reason, "the peer closed the connection in the middle of a frame");
}

static void bytes_may_come_one_by_one(void **state)
{
	uint8_t bytes[600];
	size_t length = 0;
	int fd = connect_bare();

	(void)state;
	for (uint64_t i = 0; i < 5; i++) {
		struct kr_writer w = { .bytes = bytes + length + KR_FRAME_HEADER, .capacity = 24 };
		uint8_t data[40];

		make_frame(bytes + length, (struct kr_frame_header){ .type = KR_MSG_EXTENT, .flags = KR_FRAME_ONEWAY,
			.fields_length = 24, .data_length = 40 }, 24);
		memset(data, (int)i, sizeof(data));
		kr_put_u64(&w, 1);
		kr_put_u64(&w, i);
		kr_put_u64(&w, kr_checksum(data, sizeof(data)));
		memcpy(bytes + length + KR_FRAME_HEADER + 24, data, sizeof(data));
		length += KR_FRAME_HEADER + 24 + sizeof(data);
	}
	for (size_t i = 0; i < length; i++) {
		assert_int_equal(send(fd, bytes + i, 1, MSG_NOSIGNAL), 1);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	RUN_UNTIL(server.extents == 5);
	assert_int_equal(server.offsets[4], 4);
	close(fd);
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, 0);
}

static void an_unknown_request_is_answered(void **state)
{
	uint8_t bytes[256];
	size_t length = make_frame(bytes, (struct kr_frame_header){ .type = 4000, .id = 9, .fields_length = 100 }, 100);
	struct kr_frame_header header = { 0 };
	int fd = connect_bare();
	ssize_t got = 0;

	(void)state;
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	RUN_UNTIL((got = recv(fd, bytes, sizeof(bytes), 0)) > 0);
	assert_int_equal(got, KR_FRAME_HEADER);
	assert_int_equal(kr_frame_header_decode(bytes, &header), 0);
	assert_int_equal(header.id, 9);
	assert_int_equal(header.flags, KR_FRAME_REPLY);
	assert_int_equal(kr_status_to_errno(header.status), -EPROTO);
	assert_int_equal(server.frames, 0);
	assert_non_null(server.conn);
	close(fd);
}

static void a_wrong_reply(struct kr_frame_header header, size_t body, const char *reason)
{
	struct answers answers = { 0 };
	uint8_t bytes[128];
	int fd = connect_bare();

	header.id = ping(&server, &answers);
	header.flags = KR_FRAME_REPLY;
	header.fields_length = (uint32_t)body;
	assert_int_equal(send(fd, bytes, make_frame(bytes, header, body), MSG_NOSIGNAL), KR_FRAME_HEADER + body);
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, -EBADMSG);
	assert_string_equal(server.reason, reason);
	assert_int_equal(answers.count, 1);
	assert_int_equal(answers.last_err, -ECONNRESET);
	close(fd);
	server.closed = 0;
}

static void replies_that_do_not_fit_end_the_connection(void **state)
{
	(void)state;
	a_wrong_reply((struct kr_frame_header){ .type = KR_MSG_CANCEL }, 0, "a reply is of another type than its request");
	a_wrong_reply((struct kr_frame_header){ .type = KR_MSG_PING }, 3, "PING reply: field now is malformed or cut short");
	a_wrong_reply((struct kr_frame_header){ .type = KR_MSG_PING }, 13, "PING reply: 1 bytes are left over");
}

static void random_cuts_of_a_stream_change_nothing(void **state)
{
	static uint8_t stream[2 << 20];
	unsigned seed = 11;
	size_t length = 0, sent = 0;
	int fd = connect_bare();

	(void)state;
	for (uint64_t i = 0; i < 60; i++) {
		size_t data = (size_t)rand_r(&seed) % (i % 5 == 0 ? KR_BLOCK_SIZE : 300);
		uint8_t *at = stream + length;
		struct kr_writer w = { .bytes = at + KR_FRAME_HEADER, .capacity = 24 };

		make_frame(at, (struct kr_frame_header){ .type = KR_MSG_EXTENT, .flags = KR_FRAME_ONEWAY, .fields_length = 24,
			.data_length = (uint32_t)data }, 24);
		for (size_t j = 0; j < data; j++)
			at[KR_FRAME_HEADER + 24 + j] = (uint8_t)rand_r(&seed);
		kr_put_u64(&w, 1);
		kr_put_u64(&w, i);
		kr_put_u64(&w, kr_checksum(at + KR_FRAME_HEADER + 24, data));
		length += KR_FRAME_HEADER + 24 + data;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (sent < length) {
		size_t piece = (size_t)rand_r(&seed) % 20000 + 1;
		ssize_t put = send(fd, stream + sent, KR_MIN(length - sent, piece), MSG_NOSIGNAL);

		assert_true(put > 0 || errno == EAGAIN);
		sent += put > 0 ? (size_t)put : 0;
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	RUN_UNTIL(server.extents == 60);
	for (uint64_t i = 0; i < 60; i++)
		assert_int_equal(server.offsets[i], i);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_gets_its_reply_in_both_directions),
		TEST(peers_have_names),
		TEST(frames_arrive_whole_and_in_order),
		TEST(replies_with_more_keep_the_request_open),
		TEST(a_failed_request_gets_the_error),
		TEST(forgotten_requests_are_not_called_back),
		TEST(the_caller_may_choose_ids_and_resend),
		TEST(what_cannot_be_encoded_is_not_sent),
		TEST(a_reply_that_cannot_be_encoded_becomes_a_status),
		TEST(a_paused_end_delivers_nothing_and_then_all),
		TEST(pausing_inside_a_frame_holds_the_next_one_back),
		TEST(a_peaceful_end_is_no_error),
		TEST(closing_with_flush_sends_what_is_queued),
		TEST(a_flush_survives_what_the_peer_still_sends),
		TEST(closing_while_sending_drops_the_rest),
		TEST(closing_before_the_connection_stands_is_safe),
		TEST(unanswered_requests_end_before_the_connection),
		TEST(closing_inside_a_frame_ends_delivery),
		TEST(closing_inside_a_reply_ends_the_others),
		TEST(a_refused_connection_is_told_through_on_closed),
		TEST(a_unix_socket_works_too),
		TEST(a_listener_survives_running_out_of_descriptors),
		TEST(garbage_ends_the_connection_with_one_reason),
		TEST(lengths_above_the_maximum_end_the_connection),
		TEST(a_frame_cut_short_is_an_error),
		TEST(data_cut_short_is_an_error),
		TEST(bytes_may_come_one_by_one),
		TEST(an_unknown_request_is_answered),
		TEST(replies_that_do_not_fit_end_the_connection),
		TEST(random_cuts_of_a_stream_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
