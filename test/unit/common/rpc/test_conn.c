/* Connections whose ends both keep to the rules: requests and replies, back-pressure. */
#include "test/unit/common/rpc/conn_fixture.h"

static void answer_status(struct side *side, const struct kr_frame *frame)
{
	struct kr_status_request request;
	struct kr_arena arena = {0};
	struct kr_status_reply reply;
	char text[64];

	assert_int_equal(
		kr_msg_decode(KR_MSG_STATUS, false, frame->fields, frame->header.fields_length, &request, &arena), 0);
	snprintf(text, sizeof(text), "%s of %s", request.what, request.argument);
	reply.json = (struct kr_bytes){(const uint8_t *)text, (uint32_t)strlen(text)};
	kr_conn_reply(side->conn, KR_MSG_STATUS, frame->header.id, 0, 0, &reply, NULL, 0);
	kr_arena_fini(&arena);
}

static void a_request_gets_its_reply_in_both_directions(void **state)
{
	struct kr_status_request request = {.what = "flush", .argument = "/a"};
	struct answers up = {0}, down = {0};
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

/* Runs as the last thing before the loop looks how long it may wait. */
static void send_late(uv_prepare_t *late)
{
	uv_prepare_stop(late);
	for (uint64_t i = 0; i < 3; i++)
		send_extent(&client, i, 10, 1);
	assert_true(kr_conn_queued(client.conn) > 0);
	assert_int_equal(uv_backend_timeout(&loop), 0);
}

static void the_loop_does_not_wait_before_all_is_sent(void **state)
{
	uv_prepare_t late;

	(void)state;
	connect_both();
	run_a_little();
	uv_prepare_init(&loop, &late);
	uv_prepare_start(&late, send_late);
	RUN_UNTIL(server.extents == 3);
	uv_close((uv_handle_t *)&late, NULL);
	run_a_little();
}

static void answer_in_parts(struct side *side, const struct kr_frame *frame)
{
	struct kr_pull_reply reply = {0};

	for (uint64_t i = 0; i < 20; i++) {
		struct kr_buf *buf = kr_buf_new(1000 * i + 1);
		struct kr_slice slice = {buf, 0, 1000 * i + 1};

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
	struct kr_range range = {0, 20};
	struct kr_pull_request request = {.file = some_fid, .version = 1, .blocks = {&range, 1}};
	struct answers answers = {0};

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
	struct answers answers = {0};

	(void)state;
	connect_both();
	server.hook = refuse;
	assert_true(ping(&client, &answers) > 0);
	RUN_UNTIL(answers.count);
	assert_int_equal(answers.last_err, -ENOSPC);
}

static void forgotten_requests_are_not_called_back(void **state)
{
	struct answers first = {0}, second = {0};
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
	struct answers answers = {0};

	(void)state;
	connect_both();
	server.hook = answer_ping;
	assert_int_equal(
		kr_conn_request_as(client.conn, 777, KR_FRAME_RESEND, KR_MSG_PING, NULL, NULL, 0, on_answer, &answers),
		0);
	RUN_UNTIL(answers.count);
	assert_int_equal(server.headers[0].id, 777);
	assert_int_equal(server.headers[0].flags, KR_FRAME_RESEND);
}

static void what_cannot_be_encoded_is_not_sent(void **state)
{
	struct kr_getattr_request request = {.file = {.length = 0}};
	struct kr_slice slice = {NULL, 0, 1};
	struct answers answers = {0};

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
	struct kr_ping_reply reply = {{0, 2000000000}};

	kr_conn_reply(side->conn, KR_MSG_PING, frame->header.id, 0, 0, &reply, NULL, 0);
}

static void a_reply_that_cannot_be_encoded_becomes_a_status(void **state)
{
	struct answers answers = {0};

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_gets_its_reply_in_both_directions),
		TEST(peers_have_names),
		TEST(frames_arrive_whole_and_in_order),
		TEST(the_loop_does_not_wait_before_all_is_sent),
		TEST(replies_with_more_keep_the_request_open),
		TEST(a_failed_request_gets_the_error),
		TEST(forgotten_requests_are_not_called_back),
		TEST(the_caller_may_choose_ids_and_resend),
		TEST(what_cannot_be_encoded_is_not_sent),
		TEST(a_reply_that_cannot_be_encoded_becomes_a_status),
		TEST(a_paused_end_delivers_nothing_and_then_all),
		TEST(pausing_inside_a_frame_holds_the_next_one_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
