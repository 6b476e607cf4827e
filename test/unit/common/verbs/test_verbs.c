/* Connections whose data goes over verbs, with test/fake/fakeverbs.c in place of the libraries: the conformance tests of
 * carriers, refusals, callers that nobody expects, and ways that break. */
#include "test/unit/common/verbs/verbs_fixture.h"

/* Connections that are to stay with TCP. */
static void attach_nothing(bool client_receives)
{
	(void)client_receives;
	make();
}
static const struct kind tcp = {"tcp", false, attach_nothing, detach};

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

static void ask_by_hand(struct asked *asked)
{
	struct kr_hop_verbs_request request = {.version = KR_VERBS_VERSION};

	*asked = (struct asked){0};
	assert_true(kr_conn_request(client.conn, KR_MSG_HOP_VERBS, &request, NULL, 0, on_verbs_answer, asked) > 0);
	RUN_UNTIL(asked->answered);
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in to = address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_port = htons(port);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* As fakeverbs.c sends a caller's request.  Whether it is accepted. */
static bool is_accepted(uint16_t port, const void *data, size_t length)
{
	enum { MAGIC = 0xfa4e, REQUEST = 3, ACCEPT = 4, REJECT = 5 };
	uint32_t head[3] = {MAGIC, REQUEST, (uint32_t)length};
	int fd = connect_to(port);
	ssize_t got = -1;

	assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
	assert_int_equal(write(fd, data, length), length);
	RUN_UNTIL((got = read(fd, head, sizeof(head))) >= 0 || errno != EAGAIN);
	close(fd);
	assert_int_equal(got, sizeof(head));
	assert_true(head[1] == ACCEPT || head[1] == REJECT);
	return head[1] == ACCEPT;
}

static size_t make_private(uint32_t magic, uint32_t version, uint32_t grants, const uint8_t token[32], uint8_t data[44])
{
	const uint32_t words[3] = {htonl(magic), htonl(version), htonl(grants)};

	memcpy(data, words, sizeof(words));
	memcpy(data + sizeof(words), token, 32);
	return 44;
}

static void only_the_expected_caller_is_accepted(void **state)
{
	enum { MAGIC = 0x4b52564d };
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
	fd = connect_to(port);
	assert_int_equal(write(fd, "GET / HTTP/1.0\r\n\r\n", 18), 18);
	assert_false(is_accepted(port, data, make_private(MAGIC, KR_VERBS_VERSION, 16, wrong, data)));
	assert_false(is_accepted(port, data, make_private(MAGIC + 1, KR_VERBS_VERSION, 16, asked.reply.token, data)));
	assert_false(is_accepted(port, data, make_private(MAGIC, KR_VERBS_VERSION + 1, 16, asked.reply.token, data)));
	assert_false(is_accepted(port, data, make_private(MAGIC, KR_VERBS_VERSION, 1 << 20, asked.reply.token, data)));
	assert_false(is_accepted(port, data, make_private(MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data) - 1));
	assert_false(is_accepted(port, data, 0));
	expect_tcp(50);
	server.hook = answer;
	ask_by_hand(&asked); /* twice on one connection */
	assert_int_equal(asked.err, -EPROTO);
	make_private(MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data);
	close(fd);
}

static void a_token_is_good_for_one_caller(void **state)
{
	enum { MAGIC = 0x4b52564d };
	struct asked asked;
	uint8_t data[44];

	(void)state;
	connect_kind(&server);
	ask_by_hand(&asked);
	assert_true(is_accepted(
		asked.reply.port, data, make_private(MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data)));
	assert_false(is_accepted(
		asked.reply.port, data, make_private(MAGIC, KR_VERBS_VERSION, 16, asked.reply.token, data)));
	expect_tcp(50);
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

/* --- ways that break --- */

static void a_way_that_breaks_ends_the_connection_and_rests(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: it counts what the program has sent. */
		TEST_OF(a_way_that_breaks_ends_the_connection_and_rests, &verbs),
		CONFORMANCE(&verbs),
		TEST_OF(without_a_device_data_goes_over_tcp, &tcp),
		TEST_OF(a_peer_without_a_device_refuses, &tcp),
		TEST_OF(a_peer_that_wants_tcp_refuses, &tcp),
		TEST_OF(an_older_peer_refuses, &tcp),
		TEST_OF(only_the_expected_caller_is_accepted, &tcp),
		TEST_OF(a_token_is_good_for_one_caller, &tcp),
		TEST_OF(an_unknown_version_is_refused, &tcp),
		TEST_OF(the_stream_goes_on_without_verbs_and_the_next_connection_has_them_again, &verbs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
