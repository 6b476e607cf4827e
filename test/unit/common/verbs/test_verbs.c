/* Connections whose data goes over verbs, with test/fake/fakeverbs.c in place of the libraries: the conformance tests of
 * carriers, refusals, callers that nobody expects, and paths that break. */
#include "test/unit/common/verbs/verbs_fixture.h"

/* Connections that are to stay with TCP. */
static void attach_nothing(bool client_receives)
{
	(void)client_receives;
	make();
}
static const struct kind tcp = {"tcp", false, attach_nothing, detach}, bare = {.name = "tcp"};

/* FRAMES more frames arrive, and none of them by verbs. */
static void expect_tcp(uint64_t frames)
{
	server.frames = server.extents = 0;
	send_mixture(&client, frames);
	RUN_UNTIL(server.extents == frames);
	expect_extents(&server, frames);
	assert_false(carried(&server));
	assert_false(by_verbs(&client));
}

static void run_for_ms(uint64_t ms)
{
	const uint64_t until_ns = kr_clock_ns() + ms * KR_NS_PER_MS;

	RUN_UNTIL(kr_clock_ns() > until_ns);
}

/* --- refusals --- */

static void without_a_device_data_goes_over_tcp(void **state)
{
	struct kr_verbs *none;

	(void)state;
	setenv("FAKEVERBS_NO_DEVICE", "1", 1);
	connect_kind(&server);
	assert_int_equal(kr_verbs_new(&loop, KR_TRANSPORT_VERBS, POOL, &none), -ENODEV);
	kr_verbs_ask(callers, client.conn, false);
	expect_tcp(50);
	unsetenv("FAKEVERBS_NO_DEVICE");
}

static void a_peer_without_a_device_refuses(void **state)
{
	(void)state;
	connect_kind(&server);
	kr_verbs_ask(callers, client.conn, false); /* it has looked for its device */
	setenv("FAKEVERBS_NO_DEVICE", "1", 1);
	run_for_ms(50);
	unsetenv("FAKEVERBS_NO_DEVICE");
	expect_tcp(50);
}

static void a_peer_that_wants_tcp_refuses(void **state)
{
	(void)state;
	transport_of_called = KR_TRANSPORT_TCP;
	connect_kind(&server);
	kr_verbs_ask(callers, client.conn, false);
	run_for_ms(50);
	expect_tcp(50);
}

static void answer_proto(struct side *side, const struct kr_frame *frame)
{
	if (frame->header.type == KR_MSG_HOP_VERBS)
		kr_conn_reply(side->conn, frame->header.type, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
}

static void an_older_peer_refuses(void **state)
{
	(void)state;
	connect_kind(&server);
	server.hook = answer_proto;
	kr_verbs_ask(callers, client.conn, false);
	run_for_ms(50);
	expect_tcp(50);
}

/* --- callers that nobody expects --- */

struct asked {
	struct kr_hop_verbs_reply reply;
	int err;
	bool answered;
};

static void on_verbs_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct asked *asked = context;

	(void)data, (void)more;
	asked->err = err;
	asked->answered = true;
	if (!err)
		asked->reply = *(const struct kr_hop_verbs_reply *)reply;
}

static void ask_to(struct asked *asked, bool receives)
{
	struct kr_hop_verbs_request request = {.version = KR_VERBS_VERSION, .receives = receives};

	*asked = (struct asked){0};
	assert_true(kr_conn_request(client.conn, KR_MSG_HOP_VERBS, &request, NULL, 0, on_verbs_answer, asked) > 0);
	RUN_UNTIL(asked->answered);
}

static void ask_by_hand(struct asked *asked)
{
	ask_to(asked, false);
}

static int connect_from(const char *host, uint16_t port)
{
	struct sockaddr_in from, to = address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	uv_ip4_addr(host, 0, &from);
	to.sin_port = htons(port);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* As fakeverbs.c does. */
enum { REQUEST = 3, ACCEPT, REJECT, READY, IMMEDIATE };

static void write_head(int fd, uint32_t what, size_t length)
{
	const uint32_t head[3] = {0xfa4e, what, (uint32_t)length};

	assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
}

/* Requests a connection over FD.  Whether it is accepted. */
static bool request_is_accepted(int fd, const void *data, size_t length)
{
	uint32_t head[3];
	ssize_t got = -1;

	write_head(fd, REQUEST, length);
	assert_int_equal(write(fd, data, length), length);
	RUN_UNTIL((got = read(fd, head, sizeof(head))) >= 0 || errno != EAGAIN);
	assert_int_equal(got, sizeof(head));
	assert_true(head[1] == ACCEPT || head[1] == REJECT);
	return head[1] == ACCEPT;
}

static bool is_accepted(uint16_t port, const void *data, size_t length)
{
	int fd = connect_from("127.0.0.1", port);
	bool accepted = request_is_accepted(fd, data, length);

	close(fd);
	return accepted;
}

enum { PRIVATE_MAGIC = 0x4b52564d };

static size_t make_private(uint32_t magic, uint32_t version, uint32_t grants, const uint8_t token[32], uint8_t data[44])
{
	const uint32_t words[3] = {htonl(magic), htonl(version), htonl(grants)};

	memcpy(data, words, sizeof(words));
	memcpy(data + sizeof(words), token, 32);
	return 44;
}

static void only_the_expected_caller_is_accepted(void **state)
{
	struct asked asked;
	uint8_t data[44], wrong[32];
	uint16_t port;
	int fd;

	(void)state;
	connect_kind(&server);
	ask_by_hand(&asked);
	assert_int_equal(asked.err, 0);
	port = asked.reply.port;
	memcpy(wrong, asked.reply.token, sizeof(wrong));
	wrong[31] ^= 1;
	fd = connect_from("127.0.0.1", port);
	assert_int_equal(write(fd, "GET / HTTP/1.0\r\n\r\n", 18), 18);
	assert_false(is_accepted(port, data, make_private(PRIVATE_MAGIC, KR_VERBS_VERSION, 16, wrong, data)));
	assert_false(is_accepted(
		port, data, make_private(PRIVATE_MAGIC + 1, KR_VERBS_VERSION, 16, asked.reply.token, data)));
	assert_false(is_accepted(
		port, data, make_private(PRIVATE_MAGIC, KR_VERBS_VERSION + 1, 16, asked.reply.token, data)));
	assert_false(is_accepted(
		port, data, make_private(PRIVATE_MAGIC, KR_VERBS_VERSION, 1 << 20, asked.reply.token, data)));
	assert_false(is_accepted(
		port, data, make_private(PRIVATE_MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data) - 1));
	assert_false(is_accepted(port, data, 0));
	expect_tcp(50);
	server.hook = answer;
	ask_by_hand(&asked); /* twice on one connection */
	assert_int_equal(asked.err, -EPROTO);
	close(fd);
}

static void a_token_is_good_for_one_caller(void **state)
{
	struct asked asked;
	uint8_t data[44];

	(void)state;
	connect_kind(&server);
	ask_by_hand(&asked);
	assert_true(is_accepted(
		asked.reply.port, data, make_private(PRIVATE_MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data)));
	assert_false(is_accepted(
		asked.reply.port, data, make_private(PRIVATE_MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data)));
	expect_tcp(50);
}

static void a_token_is_not_good_from_another_address(void **state)
{
	struct asked asked;
	uint8_t data[44];
	int fd;

	(void)state;
	connect_kind(&server);
	ask_by_hand(&asked);
	make_private(PRIVATE_MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data);
	fd = connect_from("127.0.0.2", asked.reply.port);
	assert_false(request_is_accepted(fd, data, sizeof(data)));
	close(fd);
	assert_true(is_accepted(asked.reply.port, data, sizeof(data)));
}

/* Such a WRITE of 0 bytes needs no key of the peer's memory, and uses up a receive. */
static void a_peer_that_writes_with_immediate_data_loses_verbs(void **state)
{
	struct asked asked;
	uint8_t data[44];
	int fd;

	(void)state;
	connect_kind(&server);
	ask_by_hand(&asked);
	make_private(PRIVATE_MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data);
	fd = connect_from("127.0.0.1", asked.reply.port);
	assert_true(request_is_accepted(fd, data, sizeof(data)));
	write_head(fd, READY, 0);
	RUN_UNTIL(by_verbs(&server));
	write_head(fd, IMMEDIATE, 0);
	RUN_UNTIL(!by_verbs(&server));
	expect_tcp(50);
	close(fd);
}

static void an_unknown_version_is_refused(void **state)
{
	struct kr_hop_verbs_request request = {.version = KR_VERBS_VERSION + 1};
	struct asked asked = {0};

	(void)state;
	connect_kind(&server);
	assert_true(kr_conn_request(client.conn, KR_MSG_HOP_VERBS, &request, NULL, 0, on_verbs_answer, &asked) > 0);
	RUN_UNTIL(asked.answered);
	assert_int_equal(asked.err, -EOPNOTSUPP);
}

/* --- paths that break --- */

static void a_path_that_breaks_ends_the_connection_and_rests(void **state)
{
	(void)state;
	connect_kind(&server);
	setenv("FAKEVERBS_FAIL_AFTER", "1", 1);
	for (uint64_t i = 0; i < 20; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	RUN_UNTIL(client.closed && server.closed);
	unsetenv("FAKEVERBS_FAIL_AFTER");
	assert_int_equal(client.err, -EIO);
	assert_true(server.extents < 20);
	connect_both();
	server.hook = answer;
	kr_verbs_ask(callers, client.conn, false);
	run_for_ms(50);
	expect_tcp(50);
}

/* The peer's device takes no data, and says nothing. */
static void a_path_that_swallows_data_ends_the_connection_and_rests(void **state)
{
	struct asked asked;
	uint8_t data[44];
	int fd;

	(void)state;
	connect_kind(&server);
	ask_to(&asked, true);
	make_private(PRIVATE_MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data);
	fd = connect_from("127.0.0.1", asked.reply.port);
	assert_true(request_is_accepted(fd, data, sizeof(data)));
	write_head(fd, READY, 0);
	RUN_UNTIL(by_verbs(&server));
	kr_conn_pause(client.conn);
	send_extent(&server, 0, KR_BLOCK_SIZE, 1);
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, -ETIMEDOUT);
	kr_conn_close(client.conn, false);
	RUN_UNTIL(client.closed);
	close(fd);
	connect_both();
	server.hook = answer;
	ask_to(&asked, true);
	assert_int_equal(asked.err, -EAGAIN);
}

/* The end of the RDMA connection alone, while nothing is under way. */
static void the_stream_goes_on_without_verbs_and_the_next_connection_has_them_again(void **state)
{
	struct asked asked;

	(void)state;
	connect_kind(&server);
	kr_verbs_close(callers);
	run_a_little();
	RUN_UNTIL(!by_verbs(&client) && !by_verbs(&server));
	expect_tcp(50);
	kr_verbs_free(callers);
	server.hook = answer;
	ask_by_hand(&asked); /* a connection has one carrier in its life */
	assert_int_equal(asked.err, -EPROTO);
	kr_conn_close(client.conn, false);
	RUN_UNTIL(client.closed && server.closed);
	assert_int_equal(kr_verbs_new(&loop, KR_TRANSPORT_VERBS, POOL, &callers), 0);
	connect_both();
	server.hook = answer;
	kr_verbs_ask(callers, client.conn, false);
	RUN_UNTIL(by_verbs(&client) && by_verbs(&server));
}

/* --- ends at any moment --- */

void fakeverbs_remove_device(void); /* fakeverbs.c */

static void the_stream_goes_on_without_the_device(void **state)
{
	(void)state;
	connect_kind(&server);
	fakeverbs_remove_device();
	RUN_UNTIL(!by_verbs(&client) && !by_verbs(&server));
	expect_tcp(50);
	kr_conn_close(client.conn, false);
	RUN_UNTIL(client.closed && server.closed);
	connect_both(); /* the device is back */
	server.hook = answer;
	kr_verbs_ask(callers, client.conn, false);
	RUN_UNTIL(by_verbs(&client) && by_verbs(&server));
}

static void a_device_that_goes_with_data_ends_the_connection(void **state)
{
	(void)state;
	connect_kind(&server);
	kr_conn_pause(server.conn);
	for (uint64_t i = 0; i < 100; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	run_a_little();
	fakeverbs_remove_device();
	RUN_UNTIL(client.closed);
	assert_int_equal(client.err, -ENODEV);
	kr_conn_resume(server.conn);
	RUN_UNTIL(server.closed);
}

static void end_of_callers(void)
{
	kr_verbs_close(callers);
}
static void end_of_called(void)
{
	kr_verbs_close(called);
}
static void end_of_client(void)
{
	kr_conn_close(client.conn, false);
}
static void end_of_server(void)
{
	kr_conn_close(server.conn, false);
}
static void flush_of_client(void)
{
	kr_conn_close(client.conn, true);
}

/* After so many turns of the loop: while HOP_VERBS is under way, the route is looked for, the RDMA connection opens, and
 * with data under way.  The fake and the pool see what is left. */
static void an_end_at_any_moment_leaves_nothing(void **state)
{
	void (*const ends[])(void) = {
		end_of_callers, end_of_called, end_of_client, end_of_server, flush_of_client, fakeverbs_remove_device};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(ends) * 16; i++) {
		memset(&client, 0, sizeof(client));
		memset(&server, 0, sizeof(server));
		connect_both();
		make();
		kr_verbs_ask(callers, client.conn, false);
		for (size_t turn = 0; turn < i / KR_ARRAY_SIZE(ends); turn++) {
			uv_run(&loop, UV_RUN_ONCE);
			send_mixture(&client, 12);
		}
		ends[i % KR_ARRAY_SIZE(ends)]();
		run_a_little();
		close_both();
		detach();
		assert_int_equal(kr_buf_bytes_in_use(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: it counts what the program has sent. */
		TEST_OF(a_path_that_breaks_ends_the_connection_and_rests, &verbs),
		CONFORMANCE(&verbs),
		TEST_OF(without_a_device_data_goes_over_tcp, &tcp),
		TEST_OF(a_peer_without_a_device_refuses, &tcp),
		TEST_OF(a_peer_that_wants_tcp_refuses, &tcp),
		TEST_OF(an_older_peer_refuses, &tcp),
		TEST_OF(only_the_expected_caller_is_accepted, &tcp),
		TEST_OF(a_token_is_good_for_one_caller, &tcp),
		TEST_OF(a_token_is_not_good_from_another_address, &tcp),
		TEST_OF(a_peer_that_writes_with_immediate_data_loses_verbs, &tcp),
		TEST_OF(an_unknown_version_is_refused, &tcp),
		TEST_OF(a_path_that_swallows_data_ends_the_connection_and_rests, &tcp),
		TEST_OF(the_stream_goes_on_without_verbs_and_the_next_connection_has_them_again, &verbs),
		TEST_OF(the_stream_goes_on_without_the_device, &verbs),
		TEST_OF(a_device_that_goes_with_data_ends_the_connection, &verbs),
		TEST_OF(an_end_at_any_moment_leaves_nothing, &bare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
