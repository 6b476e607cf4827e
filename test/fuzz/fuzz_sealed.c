/* Fuzz target: a sealed connection.  Byte 0 of the input chooses security and cipher and whether the rest is what the
 * peer sends, or changes an honest stream on its way: { u16 position, xor }...  What is delivered must be what was
 * sent, up to the first change, and the connection must end with it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/rpc/conn.h"
#include "common/base/util.h"
#include "test/fuzz/fuzz.h"

enum { FRAMES = 6, STREAM_MAX = 65536 };

static struct kr_conn *conn;
static unsigned delivered, closed;
static int end_err;
static uint8_t stream[STREAM_MAX];
static size_t stream_length, ends[FRAMES];

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

static void on_frame(struct kr_conn *from, const struct kr_frame *frame)
{
	const uint8_t expected = (uint8_t)(delivered * 37 + 1);

	(void)from;
	require(frame->header.type == KR_MSG_EXTENT && delivered < FRAMES, "a frame that was not sent");
	for (uint32_t i = 0; i < frame->header.data_length; i++)
		require(frame->data->data[i] == expected, "other data than was sent");
	delivered++;
}

static void on_closed(struct kr_conn *from, int err, const char *reason)
{
	(void)from, (void)reason;
	closed++;
	end_err = err;
}

static const struct kr_conn_handler handler = {on_frame, NULL, on_closed};

static void on_connection(uv_stream_t *listener, int status)
{
	require(status == 0 && kr_conn_accept(listener, &handler, NULL, &conn) == 0, "no connection");
}

static int connect_to(uv_loop_t *loop, uv_pipe_t *listener)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/kairan-fuzz-sealed-%d", (int)getpid());
	unlink(address.sun_path);
	require(uv_pipe_init(loop, listener, 0) == 0 && uv_pipe_bind(listener, address.sun_path) == 0 &&
			uv_listen((uv_stream_t *)listener, 1, on_connection) == 0 &&
			connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0,
		"no socket");
	while (!conn)
		uv_run(loop, UV_RUN_NOWAIT);
	unlink(address.sun_path);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* An honest frame, sealed by hand as msgs.def says. */
static void add_frame(struct kr_seal *seal, unsigned number)
{
	struct kr_frame_header header = {.type = KR_MSG_EXTENT, .flags = KR_FRAME_ONEWAY, .data_length = number * 700};
	const struct kr_extent_request request = {.offset = number};
	uint8_t *at = stream + stream_length, *fields, *data, *tag;
	struct kr_writer w;

	kr_writer_init(&w);
	require(kr_msg_encode(KR_MSG_EXTENT, false, &request, &w) == 0, "no message");
	header.fields_length = (uint32_t)w.length;
	kr_frame_header_encode(&header, at);
	require(kr_seal_close(seal, KR_SEAL_HEADER, at, KR_FRAME_HEADER, at, at + KR_FRAME_HEADER) == 0, "no seal");
	fields = at + KR_FRAME_HEADER + KR_SEAL_TAG;
	memcpy(fields, w.bytes, w.length);
	require(kr_seal_close(seal, KR_SEAL_FIELDS, fields, w.length, fields, fields + w.length) == 0, "no seal");
	tag = fields + w.length + KR_SEAL_TAG;
	data = tag;
	if (header.data_length > 0) {
		data += KR_SEAL_TAG;
		memset(data, (int)(number * 37 + 1), header.data_length);
		require(kr_seal_close(seal, KR_SEAL_DATA, data, header.data_length, data, tag) == 0, "no seal");
	}
	stream_length = (size_t)(data - stream) + header.data_length;
	ends[number] = stream_length;
	kr_writer_fini(&w);
}

/* Returns where the first change is. */
static size_t change(const uint8_t *changes, size_t length)
{
	size_t first = stream_length;

	for (; length >= 3; length -= 3, changes += 3)
		stream[(changes[0] << 8 | changes[1]) % stream_length] ^= changes[2];
	for (size_t i = 0; i < stream_length; i++) {
		uint8_t original = stream[i + STREAM_MAX / 2];

		if (stream[i] != original) {
			first = i;
			break;
		}
	}
	return first;
}

static void make_stream(const struct kr_seal_keys *keys)
{
	struct kr_seal *seal;

	stream_length = 0;
	require(kr_seal_new(keys->security, keys->cipher, keys->receive, &seal) == 0, "no seal");
	for (unsigned i = 0; i < FRAMES; i++)
		add_frame(seal, i);
	kr_seal_free(seal);
	require(stream_length < STREAM_MAX / 2, "the stream is too long");
	memcpy(stream + STREAM_MAX / 2, stream, stream_length);
}

static void feed(uv_loop_t *loop, int fd, const uint8_t *bytes, size_t length)
{
	for (size_t sent = 0; sent < length && !closed;) {
		ssize_t put = send(fd, bytes + sent, length - sent, MSG_NOSIGNAL);

		sent += put > 0 ? (size_t)put : 0;
		uv_run(loop, UV_RUN_NOWAIT);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct kr_seal_keys keys = {.send = {1}, .receive = {2}};
	size_t first = 0, whole = 0;
	uv_pipe_t listener;
	uv_loop_t loop;
	int fd;

	if (length < 1)
		return 0;
	keys.security = bytes[0] & 2 ? KR_SECURITY_PRIVACY : KR_SECURITY_INTEGRITY;
	keys.cipher = bytes[0] & 4 && kr_seal_ciphers() & KR_CIPHER_AES256_GCM ? KR_CIPHER_AES256_GCM :
										 KR_CIPHER_CHACHA20_POLY1305;
	delivered = closed = 0;
	conn = NULL;
	uv_loop_init(&loop);
	fd = connect_to(&loop, &listener);
	kr_conn_seal(conn, &keys);
	if (bytes[0] & 1) {
		make_stream(&keys);
		first = change(bytes + 1, length - 1);
		while (whole < FRAMES && ends[whole] <= first)
			whole++;
		feed(&loop, fd, stream, stream_length);
	} else {
		feed(&loop, fd, bytes + 1, length - 1);
	}
	close(fd);
	uv_close((uv_handle_t *)&listener, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	require(closed == 1 && uv_loop_close(&loop) == 0 && kr_buf_bytes_in_use() == 0, "something is left behind");
	require(delivered == whole, "not what was sent before the first change");
	if (bytes[0] & 1)
		require(end_err == (whole == FRAMES ? 0 : -EBADMSG), "another end than expected");
	return 0;
}
