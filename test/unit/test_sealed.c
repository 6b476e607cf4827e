/* Sealed connections, with somebody on the way: all that A sends passes through the test's hands before B gets it. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/conn.h"
#include "common/fail.h"
#include "common/util.h"

enum { FRAMES_MAX = 64, WIRE_MAX = 4 << 20, DEADLINE_S = 60 };

/* What B was given. */
struct got {
	uint16_t type;
	uint64_t number;    /* EXTENT's offset */
	size_t data_length;
	uint64_t checksum;
	char name[32];      /* LOOKUP's */
};

struct wire {
	uv_loop_t loop;
	uv_pipe_t listener;         /* B's */
	char path[2][64];
	int listening, from_a, to_b; /* the test's sockets */
	struct kr_conn *a, *b;
	struct kr_seal_keys keys_a, keys_b;
	struct got got[FRAMES_MAX];
	size_t count;
	bool a_closed, b_closed;
	int b_err;
	char b_reason[256];
	uint8_t *bytes;             /* of A, recorded */
	size_t length;
};
static struct wire w;

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct got *got = &w.got[w.count++];
	struct kr_arena arena = {0};
	union kr_any_msg msg;

	(void)conn;
	assert_in_range(w.count, 1, FRAMES_MAX);
	assert_int_equal(kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena), 0);
	*got = (struct got){.type = frame->header.type};
	if (frame->header.type == KR_MSG_EXTENT)
		got->number = msg.extent_request.offset;
	if (frame->header.type == KR_MSG_LOOKUP)
		snprintf(got->name, sizeof(got->name), "%s", msg.lookup_request.name);
	if (frame->data) {
		got->data_length = frame->data->length;
		got->checksum = kr_checksum(frame->data->data, frame->data->length);
	}
	kr_arena_fini(&arena);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	if (conn == w.a) {
		w.a_closed = true;
		w.a = NULL;
		return;
	}
	w.b_closed = true;
	w.b = NULL;
	w.b_err = err;
	snprintf(w.b_reason, sizeof(w.b_reason), "%s", reason);
}

static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_closed};

static void on_connection(uv_stream_t *listener, int status)
{
	assert_int_equal(status, 0);
	assert_int_equal(kr_conn_accept(listener, &handler, NULL, &w.b), 0);
}

static int unix_socket(const char *path, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static void turn(void)
{
	uv_run(&w.loop, UV_RUN_NOWAIT);
}

static int setup(void **state)
{
	struct sockaddr_un address;

	(void)state;
	memset(&w, 0, sizeof(w));
	w.bytes = malloc(WIRE_MAX);
	uv_loop_init(&w.loop);
	for (int i = 0; i < 2; i++) {
		snprintf(w.path[i], sizeof(w.path[i]), "/tmp/kr-sealed-%d-%d", (int)getpid(), i);
		unlink(w.path[i]);
	}
	uv_pipe_init(&w.loop, &w.listener, 0);
	assert_int_equal(uv_pipe_bind(&w.listener, w.path[1]), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&w.listener, 1, on_connection), 0);
	w.listening = unix_socket(w.path[0], &address);
	assert_int_equal(bind(w.listening, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(w.listening, 1), 0);
	assert_int_equal(kr_conn_connect(&w.loop, (struct sockaddr *)&address, &handler, NULL, &w.a), 0);
	w.from_a = -1;
	while (w.from_a < 0) {
		turn();
		w.from_a = accept4(w.listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	}
	w.to_b = unix_socket(w.path[1], &address);
	while (connect(w.to_b, (struct sockaddr *)&address, sizeof(address)) < 0)
		turn();
	while (!w.b)
		turn();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (w.a)
		kr_conn_close(w.a, false);
	if (w.b)
		kr_conn_close(w.b, false);
	uv_close((uv_handle_t *)&w.listener, NULL);
	uv_run(&w.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w.loop), 0);
	close(w.listening);
	close(w.from_a);
	if (w.to_b >= 0)
		close(w.to_b);
	for (int i = 0; i < 2; i++)
		unlink(w.path[i]);
	free(w.bytes);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
	return 0;
}

/* Another connection in the place of the first. */
static void again(void)
{
	teardown(NULL);
	setup(NULL);
}

static void make_keys(enum kr_security security, enum kr_cipher cipher, uint8_t seed)
{
	w.keys_a = (struct kr_seal_keys){.security = security, .cipher = cipher, .send = {seed}, .receive = {seed, 1}};
	w.keys_b = (struct kr_seal_keys){.security = security, .cipher = cipher, .send = {seed, 1}, .receive = {seed}};
}

static void seal(enum kr_security security, enum kr_cipher cipher)
{
	make_keys(security, cipher, 7);
	kr_conn_seal(w.a, &w.keys_a);
	kr_conn_seal(w.b, &w.keys_b);
}

static void send_lookup(const char *name)
{
	struct kr_lookup_request request = {.parent = {.length = 3, .bytes = {1, 2, 3}}, .name = name};

	assert_int_equal(kr_conn_oneway(w.a, KR_MSG_LOOKUP, &request, NULL, 0), 0);
}

/* LENGTH bytes of data in PIECES. */
static uint64_t send_extent(uint64_t number, size_t length, size_t pieces)
{
	struct kr_extent_request request = {.offset = number};
	struct kr_slice slices[8];
	uint8_t *all = malloc(length);
	uint64_t checksum;

	for (size_t i = 0; i < length; i++)
		all[i] = (uint8_t)(i * 31 + i / 251 + number);
	checksum = kr_checksum(all, length);
	for (size_t i = 0; i < pieces; i++) {
		size_t begin = length * i / pieces, end = length * (i + 1) / pieces;
		struct kr_buf *buf = kr_buf_new(end - begin + 9);

		memcpy(buf->data + 9, all + begin, end - begin);
		buf->length = end - begin + 9;
		slices[i] = (struct kr_slice){buf, 9, end - begin};
	}
	assert_int_equal(kr_conn_oneway(w.a, KR_MSG_EXTENT, &request, slices, pieces), 0);
	for (size_t i = 0; i < pieces; i++)
		kr_buf_put(slices[i].buf);
	free(all);
	return checksum;
}

/* Takes all that A has sent so far. */
static void record(void)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;
	bool empty = false;

	w.length = 0;
	while ((w.a && kr_conn_queued(w.a) > 0) || !empty) {
		ssize_t got;

		turn();
		got = read(w.from_a, w.bytes + w.length, WIRE_MAX - w.length);
		empty = got <= 0;
		w.length += got > 0 ? (size_t)got : 0;
		assert_true(kr_clock_ns() < until_ns);
	}
}

/* A sends nothing, however long one waits. */
static void expect_silence(void)
{
	uint8_t byte;

	for (int i = 0; i < 50; i++) {
		turn();
		assert_true(read(w.from_a, &byte, 1) < 0 && errno == EAGAIN);
	}
}

/* Gives B bytes, until it has taken or refused them. */
static void play(const uint8_t *bytes, size_t length)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;

	for (size_t sent = 0; sent < length && !w.b_closed;) {
		ssize_t put = send(w.to_b, bytes + sent, length - sent, MSG_NOSIGNAL);

		sent += put > 0 ? (size_t)put : 0;
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
	for (int i = 0; i < 10; i++)
		turn();
}

static void hang_up(void)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;

	close(w.to_b);
	w.to_b = -1;
	while (!w.b_closed) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
}

static bool contains(const void *bytes, size_t length)
{
	return memmem(w.bytes, w.length, bytes, length) != NULL;
}

static void for_all(void (*test)(enum kr_security security, enum kr_cipher cipher))
{
	for (enum kr_cipher cipher = KR_CIPHER_CHACHA20_POLY1305; cipher <= KR_CIPHER_AES256_GCM; cipher++) {
		for (enum kr_security security = KR_SECURITY_INTEGRITY; security <= KR_SECURITY_PRIVACY; security++) {
			if (!(kr_seal_ciphers() & cipher))
				continue;
			again();
			seal(security, cipher);
			test(security, cipher);
		}
	}
}

/* --- what is right arrives -------------------------------------------------------------------------------------------- */

static void frames_arrive(enum kr_security security, enum kr_cipher cipher)
{
	static const size_t lengths[] = {1, 15, 16, 17, 4096, 8192, KR_BLOCK_SIZE};
	uint64_t checksums[7][2];
	size_t i = 0;

	(void)cipher;
	assert_int_equal(kr_conn_security(w.a), security);
	send_lookup("a-name-that-is-seen");
	for (size_t n = 0; n < 7; n++)
		for (size_t pieces = 1; pieces <= 2; pieces++)
			checksums[n][pieces - 1] = send_extent(n, lengths[n], pieces == 1 ? 1 : KR_MIN(lengths[n], 8u));
	assert_int_equal(kr_conn_oneway(w.a, KR_MSG_PING, NULL, NULL, 0), 0); /* neither fields nor data */
	record();
	assert_int_equal(contains("a-name-that-is-seen", 19), security == KR_SECURITY_INTEGRITY);
	/* In pieces that fit no boundary. */
	for (size_t at = 0; at < w.length; at += 1009)
		play(w.bytes + at, KR_MIN(w.length - at, 1009u));
	assert_int_equal(w.count, 1 + 14 + 1);
	assert_string_equal(w.got[i++].name, "a-name-that-is-seen");
	for (size_t n = 0; n < 7; n++) {
		for (size_t pieces = 0; pieces < 2; pieces++, i++) {
			assert_int_equal(w.got[i].number, n);
			assert_int_equal(w.got[i].data_length, lengths[n]);
			assert_int_equal(w.got[i].checksum, checksums[n][pieces]);
		}
	}
	assert_int_equal(w.got[i].type, KR_MSG_PING);
}

static void sealed_frames_arrive_as_they_were_sent(void **state)
{
	(void)state;
	for_all(frames_arrive);
}

static void a_buffer_that_others_use_stays_as_it_is(void **state)
{
	struct kr_extent_request request = {.offset = 0};
	struct kr_buf *buf = kr_buf_new(1000);
	struct kr_slice slice = {buf, 0, 1000};

	(void)state;
	memset(buf->data, 'x', 1000);
	buf->length = 1000;
	seal(KR_SECURITY_PRIVACY, KR_CIPHER_CHACHA20_POLY1305);
	assert_int_equal(kr_conn_oneway(w.a, KR_MSG_EXTENT, &request, &slice, 1), 0);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(buf->data[i], 'x');
	kr_buf_put(buf);
	record();
	assert_false(contains("xxxxxxxxxxxxxxxx", 16));
}

static void held_frames_go_sealed_and_in_order(void **state)
{
	(void)state;
	kr_conn_hold(w.a);
	send_lookup("held-1");
	send_extent(2, 1000, 2);
	expect_silence();
	seal(KR_SECURITY_PRIVACY, KR_CIPHER_CHACHA20_POLY1305);
	kr_conn_release(w.a);
	send_lookup("after-3");
	record();
	assert_false(contains("held-1", 6));
	play(w.bytes, w.length);
	assert_int_equal(w.count, 3);
	assert_string_equal(w.got[0].name, "held-1");
	assert_int_equal(w.got[1].number, 2);
	assert_string_equal(w.got[2].name, "after-3");
}

static void a_close_waits_for_held_frames_and_their_release(void **state)
{
	(void)state;
	kr_conn_hold(w.a);
	send_lookup("held");
	kr_conn_close(w.a, true);
	expect_silence();
	assert_false(w.a_closed);
	kr_conn_release(w.a);
	record();
	play(w.bytes, w.length);
	assert_int_equal(w.count, 1);
}

static void dropping_a_connection_drops_what_it_holds(void **state)
{
	(void)state;
	kr_conn_hold(w.a);
	send_extent(1, 1000, 2);
	kr_conn_close(w.a, false);
	while (!w.a_closed)
		turn();
}

/* --- nothing else does ------------------------------------------------------------------------------------------------ */

static void expect_broken(size_t delivered)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;

	while (!w.b_closed) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
	assert_int_equal(w.b_err, -EBADMSG);
	assert_non_null(strstr(w.b_reason, "does not carry the seal"));
	assert_int_equal(w.count, delivered);
}

static void change_bytes(enum kr_security security, enum kr_cipher cipher)
{
	for (size_t at = 0, length = 1; at < length; at += 3) {
		again();
		seal(security, cipher);
		send_lookup("one");
		send_extent(2, 100, 1);
		record();
		length = w.length;
		w.bytes[at] ^= (uint8_t)(1 << at % 8);
		play(w.bytes, w.length);
		expect_broken(at < 28 + 16 + 22 + 16 ? 0 : 1); /* the frame of LOOKUP */
	}
}

static void every_changed_byte_ends_the_connection_and_is_not_delivered(void **state)
{
	(void)state;
	for_all(change_bytes);
}

static void play_tricks(enum kr_security security, enum kr_cipher cipher)
{
	size_t first, second;

	/* Repeated. */
	send_lookup("one");
	record();
	play(w.bytes, w.length);
	play(w.bytes, w.length);
	expect_broken(1);
	/* Swapped. */
	again();
	seal(security, cipher);
	send_lookup("one");
	record();
	first = w.length;
	send_lookup("two-2");
	send_lookup("three");
	record();
	second = w.length / 2;
	assert_true(first < second);
	play(w.bytes + second, w.length - second);
	expect_broken(0);
	/* What A sent, sent back to A's like: the other direction's key. */
	again();
	make_keys(security, cipher, 7);
	kr_conn_seal(w.a, &w.keys_a);
	kr_conn_seal(w.b, &w.keys_a);
	send_lookup("one");
	record();
	play(w.bytes, w.length);
	expect_broken(0);
	/* Of another connection. */
	again();
	make_keys(security, cipher, 8);
	kr_conn_seal(w.a, &w.keys_a);
	make_keys(security, cipher, 7);
	kr_conn_seal(w.b, &w.keys_b);
	send_lookup("one");
	record();
	play(w.bytes, w.length);
	expect_broken(0);
	/* Not sealed at all. */
	again();
	make_keys(security, cipher, 7);
	kr_conn_seal(w.b, &w.keys_b);
	send_lookup("one");
	send_lookup("two");
	record();
	play(w.bytes, w.length);
	expect_broken(0);
}

static void repeated_swapped_reflected_and_foreign_frames_end_the_connection(void **state)
{
	(void)state;
	for_all(play_tricks);
}

static void cut(enum kr_security security, enum kr_cipher cipher)
{
	static const size_t parts[] = {1, 28, 29, 43, 44, 60, 200};

	for (size_t i = 0; i < KR_ARRAY_SIZE(parts); i++) {
		again();
		seal(security, cipher);
		send_extent(1, 1000, 1);
		record();
		assert_true(parts[i] < w.length);
		play(w.bytes, parts[i]);
		hang_up();
		assert_int_equal(w.b_err, -ECONNRESET);
		assert_int_equal(w.count, 0);
	}
}

static void a_frame_that_is_cut_is_not_delivered(void **state)
{
	(void)state;
	for_all(cut);
}

static void bytes_that_came_too_early_are_not_believed(void **state)
{
	(void)state;
	send_lookup("in clear");
	record();
	play(w.bytes, 30); /* its header, and some more */
	seal(KR_SECURITY_INTEGRITY, KR_CIPHER_CHACHA20_POLY1305);
	while (!w.b_closed)
		turn();
	assert_int_equal(w.b_err, -EBADMSG);
	assert_int_equal(w.count, 0);
}

static void a_second_handshake_ends_the_connection(void **state)
{
	(void)state;
	seal(KR_SECURITY_INTEGRITY, KR_CIPHER_CHACHA20_POLY1305);
	kr_conn_seal(w.b, &w.keys_b);
	while (!w.b_closed)
		turn();
	assert_int_equal(w.b_err, -EPROTO);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sealed_frames_arrive_as_they_were_sent),
		TEST(a_buffer_that_others_use_stays_as_it_is),
		TEST(held_frames_go_sealed_and_in_order),
		TEST(a_close_waits_for_held_frames_and_their_release),
		TEST(dropping_a_connection_drops_what_it_holds),
		TEST(every_changed_byte_ends_the_connection_and_is_not_delivered),
		TEST(repeated_swapped_reflected_and_foreign_frames_end_the_connection),
		TEST(a_frame_that_is_cut_is_not_delivered),
		TEST(bytes_that_came_too_early_are_not_believed),
		TEST(a_second_handshake_ends_the_connection),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
