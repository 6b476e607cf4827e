/* A connection between A and B, with the test on the way: all that A sends passes through its hands. */
#ifndef KR_TEST_UNIT_SEALED_FIXTURE_H
#define KR_TEST_UNIT_SEALED_FIXTURE_H

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

#include "common/rpc/conn.h"
#include "common/base/fail.h"
#include "common/base/util.h"

enum { FRAMES_MAX = 64, WIRE_MAX = 4 << 20, DEADLINE_S = 60 };

/* What B was given. */
struct got {
	uint16_t type;
	uint64_t number; /* EXTENT's offset */
	size_t data_length;
	uint64_t checksum;
	char name[32]; /* LOOKUP's */
};

struct wire {
	uv_loop_t loop;
	uv_pipe_t listener; /* B's */
	char path[2][64];
	int listening, from_a, to_b; /* the test's sockets */
	struct kr_conn *a, *b;
	struct kr_seal_keys keys_a, keys_b;
	struct got got[FRAMES_MAX];
	size_t count;
	bool a_closed, b_closed;
	int b_err;
	char b_reason[256];
	uint8_t *bytes; /* of A, recorded */
	size_t length;
};
static struct wire w;

static inline void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct got *got = &w.got[w.count++];
	struct kr_arena arena = {0};
	union kr_any_msg msg;

	(void)conn;
	assert_in_range(w.count, 1, FRAMES_MAX);
	assert_int_equal(
		kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena), 0);
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

static inline void on_closed(struct kr_conn *conn, int err, const char *reason)
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

static inline void on_connection(uv_stream_t *listener, int status)
{
	assert_int_equal(status, 0);
	assert_int_equal(kr_conn_accept(listener, &handler, NULL, &w.b), 0);
}

static inline int unix_socket(const char *path, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static inline void turn(void)
{
	uv_run(&w.loop, UV_RUN_NOWAIT);
}

static inline int setup(void **state)
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

static inline int teardown(void **state)
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
static inline void again(void)
{
	teardown(NULL);
	setup(NULL);
}

static inline void make_keys(enum kr_security security, enum kr_cipher cipher, uint8_t seed)
{
	w.keys_a = (struct kr_seal_keys){.security = security, .cipher = cipher, .send = {seed}, .receive = {seed, 1}};
	w.keys_b = (struct kr_seal_keys){.security = security, .cipher = cipher, .send = {seed, 1}, .receive = {seed}};
}

static inline void seal(enum kr_security security, enum kr_cipher cipher)
{
	make_keys(security, cipher, 7);
	kr_conn_seal(w.a, &w.keys_a);
	kr_conn_seal(w.b, &w.keys_b);
}

static inline void send_lookup(const char *name)
{
	struct kr_lookup_request request = {.parent = {.length = 3, .bytes = {1, 2, 3}}, .name = name};

	assert_int_equal(kr_conn_oneway(w.a, KR_MSG_LOOKUP, &request, NULL, 0), 0);
}

/* LENGTH bytes of data in PIECES. */
static inline uint64_t send_extent(uint64_t number, size_t length, size_t pieces)
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
static inline void record(void)
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
static inline void expect_silence(void)
{
	uint8_t byte;

	for (int i = 0; i < 50; i++) {
		turn();
		assert_true(read(w.from_a, &byte, 1) < 0 && errno == EAGAIN);
	}
}

/* Gives B bytes, until it has taken or refused them. */
static inline void play(const uint8_t *bytes, size_t length)
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

static inline void hang_up(void)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;

	close(w.to_b);
	w.to_b = -1;
	while (!w.b_closed) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
}

static inline bool contains(const void *bytes, size_t length)
{
	return memmem(w.bytes, w.length, bytes, length) != NULL;
}

static inline void for_all(void (*test)(enum kr_security security, enum kr_cipher cipher))
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

#endif
