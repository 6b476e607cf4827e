/* The server against peers that begin a session, and those that do not play by the rules: HELLO, garbage, forged
 * identities. */
#include "test/unit/server/session/server_fixture.h"

#include <signal.h>
#include <sys/socket.h>

#include "common/base/fail.h"
#include "common/base/log.h"

static void hello_opens_a_session(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);

	assert_int_equal(node->hello.proto, KR_PROTO_VERSION);
	assert_int_not_equal(node->hello.session, 0);
	assert_int_equal(node->hello.resumed, 0);
	assert_int_not_equal(node->hello.node, 0);
	assert_int_equal(node->hello.lease_ms, LEASE_MS);
	assert_true(S_ISDIR(node->hello.root_attr.mode));
	assert_memory_equal(node->hello.export_id, f->server.export_id, 16);
}

static void hello_of_another_protocol_is_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION + 1,
		.proto_max = 9,
		.node_name = "future",
		.ring_address = "",
		.subdir = "",
		.ring = ""};

	node_connect(node);
	assert_int_equal(node_call(node, KR_MSG_HELLO, &hello, NULL), -EPROTONOSUPPORT);
	assert_non_null(strstr(kr_fail_reason(), "it speaks protocol 6"));
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
}

static void hello_with_a_ring_of_too_long_a_name_is_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];
	char ring[KR_RING_NAME_MAX + 2];
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION,
		.proto_max = KR_PROTO_VERSION,
		.node_name = "n",
		.ring_address = "",
		.subdir = "",
		.ring = ring};

	memset(ring, 'r', sizeof(ring));
	ring[KR_RING_NAME_MAX + 1] = '\0';
	node_connect(node);
	assert_int_equal(node_call(node, KR_MSG_HELLO, &hello, NULL), -EINVAL);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	ring[KR_RING_NAME_MAX] = '\0';
	node_connect(node);
	assert_int_equal(node_call(node, KR_MSG_HELLO, &hello, NULL), 0);
}

static void hello_for_a_missing_subdirectory_is_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION,
		.proto_max = KR_PROTO_VERSION,
		.node_name = "n",
		.ring_address = "",
		.subdir = "no/dir",
		.ring = ""};

	node_connect(node);
	assert_int_equal(node_call(node, KR_MSG_HELLO, &hello, NULL), -ENOENT);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
}

static void a_request_before_hello_is_refused(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];

	node_connect(node);
	assert_int_equal(node_call(node, KR_MSG_PING, NULL, NULL), -EPROTO);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
}

static int raw_connect(struct fixture *f)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(kr_listen_port(&f->server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

struct raw_wait {
	int fd;
	uint8_t *bytes;
	size_t length, wanted;
	bool ended;
};

static bool raw_arrived(void *context)
{
	struct raw_wait *wait = context;
	ssize_t got = recv(wait->fd, wait->bytes + wait->length, wait->wanted - wait->length, MSG_DONTWAIT);

	if (got > 0)
		wait->length += (size_t)got;
	wait->ended |= got == 0 || (got < 0 && errno != EAGAIN);
	return wait->ended || wait->length == wait->wanted;
}

static void garbage_ends_its_connection_only(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	uint8_t garbage[4096], answer[1];
	struct raw_wait wait = {.bytes = answer, .wanted = 1};

	for (unsigned seed = 1; seed <= 20; seed++) {
		uint32_t random = seed * 2654435761u;

		for (size_t i = 0; i < sizeof(garbage); i++) {
			random = random * 1664525u + 1013904223u;
			garbage[i] = (uint8_t)(random >> 24);
		}
		wait.fd = raw_connect(f);
		assert_int_equal(send(wait.fd, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
		wait.ended = false;
		assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
		assert_true(wait.ended);
		close(wait.fd);
	}
	settle(node);
}

/* Sends a frame as it is and returns the status of its reply. */
static uint32_t raw_exchange(struct fixture *f, int fd, uint16_t type, uint64_t id, const void *fields, uint32_t length)
{
	struct kr_frame_header header = {.type = type, .id = id, .fields_length = length};
	uint8_t bytes[KR_FRAME_HEADER], rest[8192];
	struct raw_wait wait = {.fd = fd, .bytes = bytes, .wanted = sizeof(bytes)};

	kr_frame_header_encode(&header, bytes);
	assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
	if (length)
		assert_int_equal(send(fd, fields, length, MSG_NOSIGNAL), length);
	assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
	assert_false(wait.ended);
	assert_int_equal(kr_frame_header_decode(bytes, &header), 0);
	assert_int_equal(header.id, id);
	assert_true(header.flags & KR_FRAME_REPLY);
	wait = (struct raw_wait){.fd = fd, .bytes = rest, .wanted = header.fields_length};
	if (wait.wanted)
		assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
	return header.status;
}

/* Sends a request that begins with the range MIN to MAX, and takes all that arrives until the server closes. */
static size_t raw_refused(struct fixture *f, uint16_t type, uint16_t flags, uint32_t min, uint32_t max, size_t fields,
	uint8_t *reply, size_t size)
{
	struct kr_frame_header header = {.type = type, .flags = flags, .id = 7, .fields_length = (uint32_t)fields};
	struct raw_wait wait = {.fd = raw_connect(f), .bytes = reply, .wanted = size};
	uint8_t bytes[KR_FRAME_HEADER + 2 * sizeof(uint32_t)];
	struct kr_writer w = {.bytes = bytes, .length = KR_FRAME_HEADER, .capacity = sizeof(bytes)};

	kr_frame_header_encode(&header, bytes);
	kr_put_u32(&w, min);
	kr_put_u32(&w, max);
	assert_int_equal(send(wait.fd, bytes, KR_FRAME_HEADER + fields, MSG_NOSIGNAL), KR_FRAME_HEADER + fields);
	assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
	assert_true(wait.ended);
	close(wait.fd);
	return wait.length;
}

/* A peer without a key learns the protocol's number, and gets fewer bytes than it sends. */
static void a_range_without_our_protocol_is_answered_with_our_protocol_alone(void **state)
{
	static const struct {
		uint32_t min, max;
		size_t fields;
		int err;
	} cases[] = {
		{KR_PROTO_VERSION + 1, UINT32_MAX, 8, -EPROTONOSUPPORT},
		{0, KR_PROTO_VERSION - 1, 8, -EPROTONOSUPPORT},
		{KR_PROTO_VERSION + 1, KR_PROTO_VERSION - 1, 8, -EPROTO},
		{KR_PROTO_VERSION + 1, KR_PROTO_VERSION + 1, 7, -EPROTO},
		{0, 0, 0, -EPROTO},
	};
	static const uint16_t types[] = {KR_MSG_HELLO, KR_MSG_AUTH, KR_MSG_AUTH_MUNGE};
	struct fixture *f = *state;

	for (size_t i = 0; i < KR_ARRAY_SIZE(cases) * KR_ARRAY_SIZE(types); i++) {
		const uint16_t type = types[i % KR_ARRAY_SIZE(types)];
		const bool told = cases[i / KR_ARRAY_SIZE(types)].err == -EPROTONOSUPPORT;
		const uint32_t min = cases[i / KR_ARRAY_SIZE(types)].min, max = cases[i / KR_ARRAY_SIZE(types)].max;
		const size_t fields = cases[i / KR_ARRAY_SIZE(types)].fields;
		struct kr_frame_header header;
		uint8_t reply[128] = {0};
		struct kr_reader r;

		assert_int_equal(raw_refused(f, type, 0, min, max, fields, reply, sizeof(reply)),
			KR_FRAME_HEADER + (told ? 4 : 0));
		assert_int_equal(kr_frame_header_decode(reply, &header), 0);
		assert_int_equal(kr_status_to_errno(header.status), cases[i / KR_ARRAY_SIZE(types)].err);
		assert_int_equal(header.fields_length, told ? 4 : 0);
		kr_reader_init(&r, reply + KR_FRAME_HEADER, 4);
		assert_int_equal(kr_take_u32(&r), told ? KR_PROTO_VERSION : 0);
		assert_int_equal(raw_refused(f, type, KR_FRAME_ONEWAY, min, max, fields, reply, sizeof(reply)), 0);
	}
}

static int raw_session(struct fixture *f)
{
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION,
		.proto_max = KR_PROTO_VERSION,
		.node_name = "raw",
		.node_id = {99},
		.ring_address = "",
		.subdir = "",
		.ring = ""};
	struct kr_writer w;
	int fd = raw_connect(f);

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_HELLO, false, &hello, &w), 0);
	assert_int_equal(raw_exchange(f, fd, KR_MSG_HELLO, 1, w.bytes, (uint32_t)w.length), 0);
	kr_writer_fini(&w);
	return fd;
}

/* Nobody makes the server take up a megabyte before it has said who it is. */
static void a_stranger_cannot_send_data_nor_long_fields(void **state)
{
	struct fixture *f = *state;
	const struct kr_frame_header headers[] = {
		{.type = KR_MSG_FLUSH, .id = 1, .fields_length = 100, .data_length = KR_INLINE_MAX},
		{.type = KR_MSG_FLUSH, .id = 1, .fields_length = 17 << 10},
	};
	size_t before = kr_buf_bytes_in_use();
	uint8_t bytes[KR_FRAME_HEADER + 200] = {0};
	struct raw_wait wait = {.bytes = bytes, .wanted = 1};

	for (size_t i = 0; i < KR_ARRAY_SIZE(headers); i++) {
		kr_frame_header_encode(&headers[i], bytes);
		wait.fd = raw_connect(f);
		wait.ended = false;
		assert_int_equal(send(wait.fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
		assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
		assert_true(wait.ended);
		close(wait.fd);
		assert_int_equal(kr_buf_bytes_in_use(), before);
	}
}

static void undecodable_requests_get_one_answer_each(void **state)
{
	struct fixture *f = *state;
	uint32_t proto = kr_status_from_errno(-EPROTO);
	struct kr_lookup_request msg = {.parent = {.length = 3}, .name = "x"};
	struct kr_writer w;
	int fd = raw_session(f);
	uint64_t id = 2;

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &msg, &w), 0);
	for (uint32_t length = 0; length < w.length; length++)
		assert_int_equal(raw_exchange(f, fd, KR_MSG_LOOKUP, id++, w.bytes, length), proto);
	assert_int_equal(raw_exchange(f, fd, 999, id++, "abc", 3), proto);                /* unknown */
	assert_int_equal(raw_exchange(f, fd, KR_MSG_RECALL, id++, w.bytes, 4), proto);    /* wrong direction */
	assert_int_equal(raw_exchange(f, fd, KR_MSG_HOP_HELLO, id++, w.bytes, 4), proto); /* wrong connection */
	assert_int_equal(raw_exchange(f, fd, KR_MSG_HELLO, id++, w.bytes, 4), proto);     /* once is enough */
	assert_int_equal(raw_exchange(f, fd, KR_MSG_PING, id++, NULL, 0), 0);
	kr_writer_fini(&w);
	close(fd);
}

static void a_forged_file_identity_is_stale(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_getattr_request msg = {.file = node->hello.root};

	msg.file.bytes[msg.file.length - 1] ^= 1;
	assert_int_equal(node_call(node, KR_MSG_GETATTR, &msg, NULL), -ESTALE);
	assert_int_equal(node_result(node, send_lease(node, &msg.file, KR_LEASE_READ), NULL), -ESTALE);
	assert_int_equal(node_result(node, send_lease(node, &node->hello.root, 8), NULL), -EINVAL);
}

static void status_is_told_before_hello_and_after(void **state)
{
	struct fixture *f = *state;
	struct kr_status_request msg = {.what = "status", .argument = ""}, load = {.what = "load", .argument = ""},
				 unknown = {.what = "secrets", .argument = ""};

	node_connect(f->nodes[1]);
	assert_int_equal(node_call(f->nodes[1], KR_MSG_STATUS, &msg, NULL), 0);
	assert_int_equal(node_call(f->nodes[1], KR_MSG_STATUS, &unknown, NULL), -EOPNOTSUPP);
	joined(f, 0);
	assert_int_equal(node_call(f->nodes[0], KR_MSG_STATUS, &msg, NULL), 0);
	assert_int_equal(node_call(f->nodes[0], KR_MSG_STATUS, &load, NULL), 0);
	settle(f->nodes[0]);
}

static void an_id_used_twice_ends_the_connection(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	struct kr_lease_request msg = {.file = fid, .kinds = KR_LEASE_READ};
	int fd = raw_session(f);
	struct kr_writer w;
	struct kr_frame_header header = {.type = KR_MSG_LEASE, .id = 7};
	uint8_t frame[KR_FRAME_HEADER], answer[1];
	struct raw_wait wait = {.fd = fd, .bytes = answer, .wanted = 1};

	(void)reader;
	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_LEASE, false, &msg, &w), 0);
	header.fields_length = (uint32_t)w.length;
	kr_frame_header_encode(&header, frame);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(send(fd, frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
		assert_int_equal(send(fd, w.bytes, w.length, MSG_NOSIGNAL), w.length);
	}
	kr_writer_fini(&w);
	assert_true(node_wait_for(&f->loop, raw_arrived, &wait));
	assert_true(wait.ended);
	close(fd);
	settle(writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(hello_opens_a_session),
		TEST(hello_of_another_protocol_is_refused),
		TEST(hello_with_a_ring_of_too_long_a_name_is_refused),
		TEST(hello_for_a_missing_subdirectory_is_refused),
		TEST(a_request_before_hello_is_refused),
		TEST(garbage_ends_its_connection_only),
		TEST(a_range_without_our_protocol_is_answered_with_our_protocol_alone),
		TEST(a_stranger_cannot_send_data_nor_long_fields),
		TEST(undecodable_requests_get_one_answer_each),
		TEST(a_forged_file_identity_is_stale),
		TEST(status_is_told_before_hello_and_after),
		TEST(an_id_used_twice_ends_the_connection),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_peers", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
