/* Data of frames beside the stream: the conformance tests over the stream alone and over a carrier in memory, and what
 * a carrier may do wrong. */
#include "test/unit/common/rpc/carrier_conformance.h"

#include <netinet/tcp.h>

#include "common/base/list.h"

/* --- the pair: data goes from one end's buffers into the other's, a few turns of the loop later --- */

struct sent {
	struct kr_link link;
	size_t count;
	struct kr_slice slices[KR_CARRIER_SLICES];
};

struct end {
	struct kr_carrier carrier;
	struct end *other;
	uv_idle_t idle;
	struct kr_list sending;
	struct kr_buf *receives[KR_CARRIER_GRANTS];
	size_t first, count;
	unsigned turn;
	bool closed;
};
static struct end ends[2];
static bool stalled;     /* no data arrives */
static size_t cut;       /* bytes that get lost at the end of each data */
static unsigned dirtied; /* data of which a byte gets changed */

static int take_receive(struct kr_carrier *carrier, struct kr_buf *buf)
{
	struct end *end = KR_CONTAINER_OF(carrier, struct end, carrier);

	assert_true(end->count < KR_CARRIER_GRANTS);
	assert_true(kr_buf_is_registered(buf));
	assert_int_equal(buf->references, 1);
	end->receives[(end->first + end->count++) % KR_CARRIER_GRANTS] = buf;
	return 0;
}

static void send_data(struct kr_carrier *carrier, const struct kr_slice *slices, size_t count)
{
	struct end *end = KR_CONTAINER_OF(carrier, struct end, carrier);
	struct sent *sent = kr_xcalloc(1, sizeof(*sent));

	assert_true(count <= KR_CARRIER_SLICES);
	for (size_t i = 0; i < count; i++) {
		sent->slices[i] = slices[i];
		kr_buf_get(slices[i].buf);
	}
	sent->count = count;
	kr_list_append(&end->sending, &sent->link);
}

static void free_sent(struct sent *sent)
{
	for (size_t i = 0; i < sent->count; i++)
		kr_buf_put(sent->slices[i].buf);
	free(sent);
}

static struct kr_buf *next_receive(struct end *end)
{
	struct kr_buf *buf = end->receives[end->first];

	assert_true(end->count > 0); /* the sender has no credit */
	end->first = (end->first + 1) % KR_CARRIER_GRANTS;
	end->count--;
	return buf;
}

static void move(struct end *end, struct sent *sent)
{
	struct kr_buf *buf = next_receive(end->other);

	for (size_t i = 0; i < sent->count; i++) {
		memcpy(buf->data + buf->length, sent->slices[i].buf->data + sent->slices[i].offset,
			sent->slices[i].length);
		buf->length += sent->slices[i].length;
	}
	buf->length -= cut;
	if (dirtied) {
		dirtied--;
		buf->data[buf->length / 2] ^= 1;
	}
	free_sent(sent);
	kr_conn_carrier_received(end->other->carrier.conn, buf);
	if (!end->closed)
		kr_conn_carrier_sent(end->carrier.conn);
}

static void on_idle(uv_idle_t *idle)
{
	struct end *end = KR_CONTAINER_OF(idle, struct end, idle);
	struct sent *sent;

	/* Now the frame's header is there first, now the data. */
	if (stalled || end->other->closed || ++end->turn % 3 == 0)
		return;
	for (unsigned i = 0;
		i < end->turn % 5 && !end->other->closed && (sent = KR_LIST_POP(&end->sending, struct sent, link)); i++)
		move(end, sent);
}

static void close_end(struct kr_carrier *carrier, int err)
{
	struct end *end = KR_CONTAINER_OF(carrier, struct end, carrier);
	struct sent *sent;

	(void)err;
	end->closed = true;
	while ((sent = KR_LIST_POP(&end->sending, struct sent, link)))
		free_sent(sent);
	while (end->count > 0)
		kr_buf_put(next_receive(end));
	uv_close((uv_handle_t *)&end->idle, NULL);
}

static const struct kr_carrier_ops ops = {"pair", take_receive, send_data, close_end};

static void open_end(struct end *end, struct end *other, struct kr_conn *conn)
{
	*end = (struct end){.carrier = {.ops = &ops}, .other = other};
	kr_list_init(&end->sending);
	uv_idle_init(&loop, &end->idle);
	uv_idle_start(&end->idle, on_idle);
	kr_conn_carry(conn, &end->carrier);
	assert_true(kr_conn_had_carrier(conn));
}

static void attach_pair(bool client_receives)
{
	stalled = false;
	cut = 0;
	dirtied = 0;
	open_end(&ends[0], &ends[1], client.conn);
	open_end(&ends[1], &ends[0], server.conn);
	assert_int_equal(kr_conn_grant(client_receives ? client.conn : server.conn), KR_CARRIER_GRANTS);
	kr_conn_carrier_opened(client.conn, client_receives ? 0 : KR_CARRIER_GRANTS);
	kr_conn_carrier_opened(server.conn, client_receives ? KR_CARRIER_GRANTS : 0);
}

static void attach_nothing(bool client_receives)
{
	(void)client_receives;
}

static const struct kind tcp = {"tcp", false, attach_nothing, NULL}, pair = {"pair", true, attach_pair, NULL};

/* --- what may go wrong with a carrier --- */

static void data_of_another_length_ends_the_connection(void **state)
{
	(void)state;
	connect_kind(&server);
	cut = 1;
	send_extent(&client, 0, KR_BLOCK_SIZE, 1);
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, -EBADMSG);
	assert_int_equal(server.extents, 0);
}

static void changed_data_does_not_pass_the_seal(void **state)
{
	(void)state;
	connect_kind(&server);
	seal_both(KR_SECURITY_INTEGRITY);
	dirtied = 1;
	send_extent(&client, 0, KR_BLOCK_SIZE, 1);
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, -EBADMSG);
	assert_int_equal(server.extents, 0);
}

static void data_that_never_comes_ends_both_connections(void **state)
{
	(void)state;
	connect_kind(&server);
	for (int i = 0; i < 2; i++)
		uv_idle_stop(&ends[i].idle); /* nothing moves data, and the loop sleeps */
	send_extent(&client, 0, KR_BLOCK_SIZE, 1);
	RUN_UNTIL(server.closed && client.closed);
	assert_true(server.err == -ETIMEDOUT || client.err == -ETIMEDOUT);
	assert_int_equal(server.extents, 0);
}

static void more_credits_than_a_peer_can_have_end_the_connection(void **state)
{
	struct kr_hop_credit_request credit = {.count = 1000};

	(void)state;
	connect_kind(&server);
	for (int i = 0; i < 3; i++)
		assert_int_equal(kr_conn_oneway(client.conn, KR_MSG_HOP_CREDIT, &credit, NULL, 0), 0);
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, -EBADMSG);
}

static void the_stream_goes_on_when_an_idle_carrier_is_gone(void **state)
{
	(void)state;
	connect_kind(&server);
	send_mixture(&client, 50);
	RUN_UNTIL(server.extents == 50 && kr_list_empty(&ends[0].sending));
	for (int i = 0; i < 2; i++) {
		kr_conn_carrier_gone(ends[i].carrier.conn, -ECONNRESET, "gone");
		close_end(&ends[i].carrier, 0);
	}
	assert_string_equal(kr_conn_transport(client.conn), "tcp");
	server.extents = server.frames = 0;
	send_mixture(&client, 50);
	RUN_UNTIL(server.extents == 50);
	assert_false(carried(&server));
}

static void a_carrier_that_is_gone_with_data_ends_the_connection(void **state)
{
	(void)state;
	connect_kind(&server);
	stalled = true;
	send_extent(&client, 0, KR_BLOCK_SIZE, 1);
	run_a_little();
	kr_conn_carrier_gone(client.conn, -ECONNRESET, "the link broke");
	close_end(&ends[0].carrier, 0);
	RUN_UNTIL(client.closed);
	assert_int_equal(client.err, -ECONNRESET);
	assert_string_equal(client.reason, "the link broke");
}

/* A frame whose data of LENGTH bytes goes beside the stream. */
static void write_carried(int fd, uint32_t length)
{
	struct kr_frame_header header = {
		.type = KR_MSG_EXTENT, .flags = KR_FRAME_ONEWAY | KR_FRAME_CARRIED, .data_length = length};
	static const uint8_t zeros[KR_BLOCK_SIZE];
	struct kr_extent_request extent = {.checksum = kr_checksum(zeros, length)};
	struct kr_writer w;
	uint8_t bytes[KR_FRAME_HEADER];

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_EXTENT, false, &extent, &w), 0);
	header.fields_length = (uint32_t)w.length;
	kr_frame_header_encode(&header, bytes);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(write(fd, w.bytes, w.length), w.length);
	kr_writer_fini(&w);
}

static void data_beside_the_stream_needs_a_carrier(void **state)
{
	int fd;

	(void)state;
	fd = connect_bare();
	write_carried(fd, KR_BLOCK_SIZE);
	RUN_UNTIL(server.closed);
	assert_int_equal(server.err, -EBADMSG);
	close(fd);
}

/* The server's end alone: the test is the peer. */
static void open_server_end(void)
{
	ends[0] = (struct end){.closed = true};
	open_end(&ends[1], &ends[0], server.conn);
	assert_int_equal(kr_conn_grant(server.conn), KR_CARRIER_GRANTS);
	kr_conn_carrier_opened(server.conn, 0);
}

/* A data of one byte arrives. */
static void receive_byte(void)
{
	struct kr_buf *buf = next_receive(&ends[1]);

	buf->data[0] = 0;
	buf->length = 1;
	kr_conn_carrier_received(server.conn, buf);
}

static void data_without_frames_takes_no_more_than_was_granted(void **state)
{
	int fd;

	(void)state;
	fd = connect_bare();
	open_server_end();
	for (int i = 0; i < KR_CARRIER_GRANTS; i++)
		receive_byte();
	run_a_little();
	assert_int_equal(ends[1].count, 0);
	assert_false(server.closed);
	write_carried(fd, 1);
	RUN_UNTIL(server.extents == 1);
	assert_int_equal(ends[1].count, 1);
	close(fd);
	RUN_UNTIL(server.closed);
}

static void a_peer_that_takes_no_credits_is_dropped(void **state)
{
	const int small = 4096, on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uv_os_fd_t listening;
	size_t most = 0;

	(void)state;
	uv_fileno((uv_handle_t *)&listener, &listening);
	setsockopt(listening, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	RUN_UNTIL(server.conn);
	open_server_end();
	for (uint64_t i = 0; i < 20000 && !server.closed; i++) {
		server.frames = server.extents = 0;
		receive_byte();
		write_carried(fd, 1);
		RUN_UNTIL(server.extents == 1 || server.closed);
		most = server.closed ? most : KR_MAX(most, kr_conn_queued_frames(server.conn));
	}
	assert_int_equal(server.err, -EBADMSG);
	assert_true(most <= KR_CONN_UNTAKEN_MAX + 1);
	close(fd);
}

/* The client has dropped what came behind its close, up to the middle of a frame. */
static void a_carrier_that_opens_behind_the_close_is_not_used(void **state)
{
	(void)state;
	connect_both();
	stalled = false;
	open_end(&ends[0], &ends[1], client.conn);
	open_end(&ends[1], &ends[0], server.conn);
	kr_conn_pause(server.conn);
	for (uint64_t i = 0; i < 300; i++) {
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
		send_extent(&server, i, KR_BLOCK_SIZE, 1);
	}
	kr_conn_close(client.conn, true);
	run_a_little();
	kr_conn_carrier_opened(client.conn, 0);
	run_a_little();
	kr_conn_resume(server.conn);
	RUN_UNTIL(server.closed && client.closed);
	expect_extents(&server, 300);
	assert_int_equal(client.err, 0);
	assert_int_equal(server.err, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONFORMANCE(&tcp),
		CONFORMANCE(&pair),
		TEST_OF(data_of_another_length_ends_the_connection, &pair),
		TEST_OF(changed_data_does_not_pass_the_seal, &pair),
		TEST_OF(data_that_never_comes_ends_both_connections, &pair),
		TEST_OF(more_credits_than_a_peer_can_have_end_the_connection, &pair),
		TEST_OF(the_stream_goes_on_when_an_idle_carrier_is_gone, &pair),
		TEST_OF(a_carrier_that_is_gone_with_data_ends_the_connection, &pair),
		TEST_OF(data_beside_the_stream_needs_a_carrier, &tcp),
		TEST_OF(data_without_frames_takes_no_more_than_was_granted, &tcp),
		TEST_OF(a_peer_that_takes_no_credits_is_dropped, &tcp),
		TEST_OF(a_carrier_that_opens_behind_the_close_is_not_used, &tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
