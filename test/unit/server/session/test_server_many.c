/* A thousand nodes at one server process: what a session costs, and that a node that does not read delays nobody.
 *
 * The server runs in a child process; the nodes are plain blocking sockets here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/rpc/msg.h"
#include "common/base/util.h"
#include "server/session/listen.h"
#include "server/base/options.h"
#include "server/daemon/life.h"
#include "server/flush/flush.h"
#include "server/leases/file_table.h"
#include "server/leases/invalidation.h"
#include "server/pipelines/staging.h"
#include "server/recovery/recovery.h"
#include "server/session/session.h"
#include "test/unit/directory.h"

enum { NODES = 1000, ANSWER_S = 60, SESSION_BYTES_MAX = 48 * 1024, STUCK_BYTES_MAX = 64 << 20 };

struct many {
	char directory[64];
	pid_t server;
	uint16_t port;
	int nodes[NODES];
	struct kr_fid root;
};

/* --- the server's process --------------------------------------------------------------------- */

static void on_term(uv_signal_t *handle, int number)
{
	(void)number;
	kr_server_stop(handle->data);
	uv_close((uv_handle_t *)handle, NULL);
}

static int run_server(const char *directory, int report)
{
	static struct kr_server server;
	char export_path[80], state_path[80], any[] = "127.0.0.1:0", *listen[] = {any};
	struct kr_server_options options = {
		.listen = {listen, 1}, .state = state_path, .lease = 60000, .export_path = export_path};
	uv_loop_t *loop = uv_default_loop();
	uv_signal_t term;
	uint16_t port;

	snprintf(export_path, sizeof(export_path), "%s/export", directory);
	snprintf(state_path, sizeof(state_path), "%s/state", directory);
	if (mkdir(export_path, 0755) || kr_server_init(&server, loop, &options) || kr_server_listen(&server))
		return 1;
	uv_signal_init(loop, &term);
	term.data = &server;
	uv_signal_start(&term, on_term, SIGTERM);
	port = kr_listen_port(&server);
	if (write(report, &port, sizeof(port)) != sizeof(port))
		return 1;
	uv_run(loop, UV_RUN_DEFAULT);
	kr_server_fini(&server);
	return uv_loop_close(loop) ? 1 : 0;
}

static size_t server_memory(const struct many *many)
{
	char path[64], line[256];
	size_t kilobytes = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)many->server);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "RssAnon: %zu", &kilobytes) == 1)
			break;
	}
	fclose(file);
	return kilobytes * 1024;
}

static bool memory_is_meaningful(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return false;
#else
	return true;
#endif
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void send_frame(int fd, uint16_t type, uint64_t id, const void *msg)
{
	struct kr_frame_header header = {.type = type, .id = id};
	uint8_t bytes[KR_FRAME_HEADER];
	struct kr_writer w;

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(type, false, msg, &w), 0);
	header.fields_length = (uint32_t)w.length;
	kr_frame_header_encode(&header, bytes);
	assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
	if (w.length)
		assert_int_equal(send(fd, w.bytes, w.length, MSG_NOSIGNAL), w.length);
	kr_writer_fini(&w);
}

static void receive(int fd, void *bytes, size_t length)
{
	for (size_t done = 0; done < length;) {
		ssize_t got = recv(fd, (char *)bytes + done, length - done, 0);

		if (got <= 0)
			fail_msg("no answer: %s", got ? strerror(errno) : "connection closed");
		done += (size_t)got;
	}
}

static uint32_t receive_reply(int fd, uint64_t id, union kr_any_msg *ret)
{
	struct kr_frame_header header;
	struct kr_arena arena = {0};
	uint8_t bytes[KR_FRAME_HEADER], fields[8192];

	receive(fd, bytes, sizeof(bytes));
	assert_int_equal(kr_frame_header_decode(bytes, &header), 0);
	assert_int_equal(header.id, id);
	assert_true(header.fields_length <= sizeof(fields));
	receive(fd, fields, header.fields_length);
	if (ret)
		assert_int_equal(kr_msg_decode(header.type, true, fields, header.fields_length, ret, &arena), 0);
	kr_arena_fini(&arena);
	return header.status;
}

static int join(struct many *many, int number)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(many->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval patience = {.tv_sec = ANSWER_S};
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION,
		.proto_max = KR_PROTO_VERSION,
		.node_name = "node",
		.ring_address = "",
		.subdir = "",
		.ring = ""};
	union kr_any_msg reply;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	memcpy(hello.node_id, &number, sizeof(number));
	send_frame(fd, KR_MSG_HELLO, 1, &hello);
	assert_int_equal(receive_reply(fd, 1, &reply), 0);
	many->root = reply.hello_reply.root;
	return fd;
}

/* --- fixture ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
	struct many *many = calloc(1, sizeof(*many));
	struct rlimit limit;
	int report[2];

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < NODES + 100)
		skip();
	strcpy(many->directory, "/tmp/kr-test-many-XXXXXX");
	assert_non_null(mkdtemp(many->directory));
	assert_int_equal(pipe(report), 0);
	many->server = fork();
	if (many->server == 0)
		_exit(run_server(many->directory, report[1])); /* its leaks are looked for in test_server */
	close(report[1]);
	assert_int_equal(read(report[0], &many->port, sizeof(many->port)), sizeof(many->port));
	close(report[0]);
	*state = many;
	return 0;
}

static int teardown(void **state)
{
	struct many *many = *state;
	int status;

	kill(many->server, SIGTERM);
	assert_int_equal(waitpid(many->server, &status, 0), many->server);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	directory_remove(many->directory);
	free(many);
	return 0;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* Asks and asks without ever reading, until neither side takes any more. */
static void get_stuck(struct many *many, int fd)
{
	struct kr_getattr_request msg = {.file = many->root};
	struct kr_frame_header header = {.type = KR_MSG_GETATTR};
	struct kr_writer w, frame;
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	size_t sent = 0;

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_GETATTR, false, &msg, &w), 0);
	header.fields_length = (uint32_t)w.length;
	kr_writer_init(&frame);
	for (;;) {
		uint8_t bytes[KR_FRAME_HEADER];
		ssize_t got;

		if (sent == frame.length) {
			sent = frame.length = 0;
			header.id++;
			kr_frame_header_encode(&header, bytes);
			kr_put_bytes(&frame, bytes, sizeof(bytes));
			kr_put_bytes(&frame, w.bytes, w.length);
		}
		got = send(fd, frame.bytes + sent, frame.length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (got > 0)
			sent += (size_t)got;
		else if (poll(&wait, 1, 2000) == 0)
			break;
	}
	kr_writer_fini(&frame);
	kr_writer_fini(&w);
}

static void a_thousand_nodes_are_no_burden_and_a_stuck_one_delays_nobody(void **state)
{
	struct many *many = *state;
	struct kr_getattr_request getattr = {0};
	size_t before, after, stuck;

	close(join(many, NODES + 1)); /* what is allocated once */
	before = server_memory(many);
	for (int i = 0; i < NODES; i++)
		many->nodes[i] = join(many, i + 1);
	after = server_memory(many);
	print_message("%zu bytes of the server's memory per session\n", (after - before) / NODES);
	if (memory_is_meaningful())
		assert_true((after - before) / NODES <= SESSION_BYTES_MAX);

	get_stuck(many, many->nodes[0]);
	stuck = server_memory(many);
	print_message("%zu KiB for a node that asks and does not read\n", (stuck - after) / 1024);
	if (memory_is_meaningful())
		assert_true(stuck - after <= STUCK_BYTES_MAX);

	getattr.file = many->root;
	for (int round = 0; round < 3; round++) {
		for (int i = 1; i < NODES; i++)
			send_frame(many->nodes[i], KR_MSG_GETATTR, (uint64_t)round + 2, &getattr);
		for (int i = 1; i < NODES; i++)
			assert_int_equal(receive_reply(many->nodes[i], (uint64_t)round + 2, NULL), 0);
	}
	for (int i = 0; i < NODES; i++)
		close(many->nodes[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_thousand_nodes_are_no_burden_and_a_stuck_one_delays_nobody, setup, teardown),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_many", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
