/* Connections whose other end misbehaves: garbage, lengths, cuts. */
#include <malloc.h>

#include "test/unit/common/rpc/conn_fixture.h"

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
	make_frame(bytes, (struct kr_frame_header){.type = KR_MSG_PING, .id = 1, .fields_length = 1025}, 0);
	sends_garbage_and_is_cut_off(
		bytes, KR_FRAME_HEADER, "frame of type 2: 1025 bytes of fields, at most 1024 are allowed");
	make_frame(bytes, (struct kr_frame_header){.type = KR_MSG_PING, .id = 1, .data_length = 1}, 0);
	sends_garbage_and_is_cut_off(bytes, KR_FRAME_HEADER, "frame of type 2: 1 bytes of data, at most 0 are allowed");
	make_frame(bytes, (struct kr_frame_header){.type = KR_MSG_EXTENT, .data_length = UINT32_MAX}, 0);
	sends_garbage_and_is_cut_off(
		bytes, KR_FRAME_HEADER, "frame of type 103: 4294967295 bytes of data, at most 131072 are allowed");
}

static void a_frame_cut_short_is_an_error(void **state)
{
	uint8_t bytes[64];
	size_t length =
		make_frame(bytes, (struct kr_frame_header){.type = KR_MSG_CANCEL, .id = 1, .fields_length = 8}, 8);

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
	size_t length = make_frame(bytes,
		(struct kr_frame_header){
			.type = KR_MSG_EXTENT, .flags = KR_FRAME_ONEWAY, .fields_length = 24, .data_length = 100000},
		24 + 50);
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
		struct kr_writer w = {.bytes = bytes + length + KR_FRAME_HEADER, .capacity = 24};
		uint8_t data[40];

		make_frame(bytes + length,
			(struct kr_frame_header){.type = KR_MSG_EXTENT,
				.flags = KR_FRAME_ONEWAY,
				.fields_length = 24,
				.data_length = 40},
			24);
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
	size_t length = make_frame(bytes, (struct kr_frame_header){.type = 4000, .id = 9, .fields_length = 100}, 100);
	struct kr_frame_header header = {0};
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

/* What the process has on its heap; 0: this cannot be told. */
static size_t memory(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 0;
#else
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
#endif
}

/* The shortest answers of all, each of which takes several times as much memory as it is long. */
static void refusals_that_nobody_takes_are_not_kept(void **state)
{
	enum { AT_ONCE = 1000, MOST = 12 << 20 };
	static uint8_t bytes[AT_ONCE * KR_FRAME_HEADER];
	size_t sent = 0, before, most = 0, counted = 0;
	int fd = connect_bare();

	(void)state;
	for (size_t i = 0; i < AT_ONCE; i++)
		make_frame(bytes + i * KR_FRAME_HEADER, (struct kr_frame_header){.type = 4000, .id = i}, 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	before = memory();
	while (!server.closed) {
		ssize_t more = send(fd, bytes + sent, sizeof(bytes) - sent, MSG_NOSIGNAL);

		sent = more > 0 ? (sent + (size_t)more) % sizeof(bytes) : sent;
		uv_run(&loop, UV_RUN_NOWAIT);
		most = KR_MAX(most, KR_MAX(memory(), before) - before);
		counted = KR_MAX(counted, kr_conn_queued_in_all());
	}
	assert_int_equal(server.err, -EBADMSG);
	assert_in_range(most, 0, MOST);
	assert_in_range(counted, most - most / 4, MOST); /* what is counted is what is there */
	close(fd);
}

static void think_about_it(struct side *side, const struct kr_frame *frame)
{
	uint64_t until_ns = kr_clock_ns() + 100000;

	(void)side, (void)frame;
	while (kr_clock_ns() < until_ns)
		;
}

static void who_says_very_much_is_heard_in_turns(void **state)
{
	uint8_t bytes[KR_FRAME_HEADER];
	int fd = connect_bare();
	size_t before;

	(void)state;
	server.hook = think_about_it;
	for (uint64_t i = 1; i <= 1000; i++)
		assert_int_equal(
			send(fd, bytes, make_frame(bytes, (struct kr_frame_header){.type = KR_MSG_PING, .id = i}, 0),
				MSG_NOSIGNAL),
			KR_FRAME_HEADER);
	while (server.frames < 1000) {
		before = server.frames;
		uv_run(&loop, UV_RUN_ONCE);
		assert_in_range(
			server.frames - before, 0, 30); /* a millisecond's, or two: then others could say something */
	}
	close(fd);
	RUN_UNTIL(server.closed);
}

static void a_wrong_reply(struct kr_frame_header header, size_t body, const char *reason)
{
	struct answers answers = {0};
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
	a_wrong_reply(
		(struct kr_frame_header){.type = KR_MSG_CANCEL}, 0, "a reply is of another type than its request");
	a_wrong_reply(
		(struct kr_frame_header){.type = KR_MSG_PING}, 3, "PING reply: field now is malformed or cut short");
	a_wrong_reply((struct kr_frame_header){.type = KR_MSG_PING}, 13, "PING reply: 1 bytes are left over");
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
		struct kr_writer w = {.bytes = at + KR_FRAME_HEADER, .capacity = 24};

		make_frame(at,
			(struct kr_frame_header){.type = KR_MSG_EXTENT,
				.flags = KR_FRAME_ONEWAY,
				.fields_length = 24,
				.data_length = (uint32_t)data},
			24);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(garbage_ends_the_connection_with_one_reason),
		TEST(lengths_above_the_maximum_end_the_connection),
		TEST(a_frame_cut_short_is_an_error),
		TEST(data_cut_short_is_an_error),
		TEST(bytes_may_come_one_by_one),
		TEST(an_unknown_request_is_answered),
		TEST(refusals_that_nobody_takes_are_not_kept),
		TEST(who_says_very_much_is_heard_in_turns),
		TEST(replies_that_do_not_fit_end_the_connection),
		TEST(random_cuts_of_a_stream_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
