/* Fuzz target: what a peer may send on a connection, in pieces of any size.  Byte 0 seeds the cuts; the rest is the
 * stream.  The connection must end (the stream does), call back once, and leave no buffer behind. */
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

static unsigned seed, closed;
static struct kr_conn *conn;

static void on_frame(struct kr_conn *from, const struct kr_frame *frame)
{
	static uint64_t sum;

	for (uint32_t i = 0; i < frame->header.fields_length; i++)
		sum += frame->fields[i];
	for (uint32_t i = 0; i < frame->header.data_length; i++)
		sum += frame->data->data[i];
	if (rand_r(&seed) % 8 == 0) {
		kr_conn_pause(from);
		kr_conn_resume(from);
	}
	if (!(frame->header.flags & KR_FRAME_ONEWAY))
		kr_conn_reply(from, frame->header.type, frame->header.id, 0, -(int)(sum % 7 + 1), NULL, NULL, 0);
}

static void on_closed(struct kr_conn *from, int err, const char *reason)
{
	(void)err;
	(void)reason;
	if (from != conn || closed++ > 0)
		abort();
}

static const struct kr_conn_handler handler = {on_frame, NULL, on_closed};

static void on_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	(void)reply;
	(void)data;
	if (!more && err == -ECONNRESET && closed > 0)
		abort(); /* after the connection's end */
	(void)context;
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct kr_statfs_request request = {.file = {.length = 1}};

	if (status < 0 || kr_conn_accept(listener, &handler, NULL, &conn) < 0)
		abort();
	for (int i = 0; i < 3; i++)
		kr_conn_request(conn, i == 0 ? KR_MSG_STATFS : KR_MSG_PING, &request, NULL, 0, on_reply, NULL);
}

/* A connected pair whose one end is the listener's next connection. */
static int connect_to(uv_loop_t *loop, uv_pipe_t *listener)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/kairan-fuzz-%d", (int)getpid());
	unlink(address.sun_path);
	if (uv_pipe_init(loop, listener, 0) < 0 || uv_pipe_bind(listener, address.sun_path) < 0 ||
		uv_listen((uv_stream_t *)listener, 1, on_connection) < 0 ||
		connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		abort();
	while (!conn)
		uv_run(loop, UV_RUN_NOWAIT);
	unlink(address.sun_path);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	size_t sent = 1;
	uv_pipe_t listener;
	uv_loop_t loop;
	int fd;

	if (length < 1)
		return 0;
	signal(SIGPIPE, SIG_IGN); /* as the daemons do */
	seed = bytes[0];
	closed = 0;
	conn = NULL;
	uv_loop_init(&loop);
	fd = connect_to(&loop, &listener);
	while (sent < length && !closed) {
		size_t piece = (size_t)rand_r(&seed) % 9000 + 1;
		ssize_t put = send(fd, bytes + sent, KR_MIN(length - sent, piece), MSG_NOSIGNAL);

		sent += put > 0 ? (size_t)put : 0;
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	close(fd);
	uv_close((uv_handle_t *)&listener, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	if (closed != 1 || uv_loop_close(&loop) != 0 || kr_buf_bytes_in_use() != 0)
		abort();
	return 0;
}
