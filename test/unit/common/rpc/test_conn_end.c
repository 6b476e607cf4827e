/* The ends of connections: in peace, in the middle of something, from inside a callback, and beginnings that fail. */
#include "test/unit/common/rpc/conn_fixture.h"

static void a_peaceful_end_is_no_error(void **state)
{
	(void)state;
	connect_both();
	kr_conn_close(client.conn, false);
	assert_non_null(client.conn);
	assert_int_equal(client.closed, 0);
	RUN_UNTIL(client.closed && server.closed);
	assert_int_equal(client.err, 0);
	assert_string_equal(client.reason, "closed");
	assert_int_equal(server.err, 0);
	assert_string_equal(server.reason, "closed by the peer");
}

static void closing_with_flush_sends_what_is_queued(void **state)
{
	(void)state;
	connect_both();
	for (uint64_t i = 0; i < 100; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	assert_true(kr_conn_queued(client.conn) > 0);
	kr_conn_close(client.conn, true);
	kr_conn_close(client.conn, true);
	assert_int_equal(kr_conn_oneway(client.conn, KR_MSG_PING, NULL, NULL, 0), -ECONNRESET);
	RUN_UNTIL(client.closed && server.closed);
	assert_int_equal(server.extents, 100);
	assert_int_equal(server.err, 0);
	assert_int_equal(client.err, 0);
	assert_int_equal(client.closed + server.closed, 2);
}

static void a_flush_survives_what_the_peer_still_sends(void **state)
{
	(void)state;
	connect_both();
	for (uint64_t i = 0; i < 100; i++) {
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
		send_extent(&server, i, KR_BLOCK_SIZE, 1);
	}
	kr_conn_close(client.conn, true);
	RUN_UNTIL(client.closed && server.closed);
	assert_int_equal(server.extents, 100);
	assert_int_equal(client.err, 0);
}

static void closing_while_sending_drops_the_rest(void **state)
{
	(void)state;
	connect_both();
	for (uint64_t i = 0; i < 200; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	kr_conn_close(client.conn, false);
	kr_conn_close(client.conn, true);
	RUN_UNTIL(client.closed && server.closed);
	assert_true(server.extents < 200);
}

/* Whether the kernel goes on to send from this port. */
static bool kernel_sends_from(unsigned port)
{
	FILE *file = fopen("/proc/net/tcp", "r");
	char line[512];
	bool found = false;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		unsigned local, queue;

		if (sscanf(line, " %*u: %*x:%x %*x:%*x %*x %x:", &local, &queue) == 2 && local == port && queue > 0)
			found = true;
	}
	fclose(file);
	return found;
}

/* The client's port, when its kernel has more than the server's takes. */
static unsigned fill_the_kernel(void)
{
	const char *port;

	connect_both();
	kr_conn_pause(server.conn);
	for (uint64_t i = 0; i < 200; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	run_a_little();
	port = strrchr(kr_conn_peer(server.conn), ':');
	assert_non_null(port);
	return (unsigned)atoi(port + 1);
}

static void a_reset_leaves_nothing_to_arrive_later(void **state)
{
	unsigned port = fill_the_kernel();

	(void)state;
	kr_conn_close(client.conn, false);
	RUN_UNTIL(client.closed);
	assert_true(kernel_sends_from(port));
	kr_conn_close(server.conn, false);
	RUN_UNTIL(server.closed);

	port = fill_the_kernel();
	assert_true(kernel_sends_from(port));
	kr_conn_reset(client.conn);
	RUN_UNTIL(client.closed == 2);
	assert_int_equal(client.err, 0);
	assert_false(kernel_sends_from(port));
	kr_conn_resume(server.conn);
	RUN_UNTIL(server.closed == 2);
	assert_int_equal(server.err, -ECONNRESET);
}

static void closing_before_the_connection_stands_is_safe(void **state)
{
	struct answers answers = {0};

	(void)state;
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&address, &handler, &client, &client.conn), 0);
	assert_true(ping(&client, &answers) > 0);
	kr_conn_close(client.conn, false);
	RUN_UNTIL(client.closed && server.closed);
	assert_int_equal(answers.last_err, -ECONNRESET);
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&address, &handler, &client, &client.conn), 0);
	assert_int_equal(kr_conn_oneway(client.conn, KR_MSG_PING, NULL, NULL, 0), 0);
	kr_conn_close(client.conn, true);
	RUN_UNTIL(client.closed == 2);
	assert_int_equal(client.err, 0);
	RUN_UNTIL(server.frames == 1);
}

static void forget_the_other(struct answers *answers)
{
	assert_int_equal(answers->side->closed, 0);
	assert_int_equal(ping(answers->side, answers), 0);
	kr_conn_forget(answers->side->conn, answers->other_id);
}

static void unanswered_requests_end_before_the_connection(void **state)
{
	struct answers first = {.hook = forget_the_other, .side = &client}, second = {0}, third = {0};

	(void)state;
	connect_both();
	assert_true(ping(&client, &first) > 0);
	first.other_id = ping(&client, &second);
	assert_true(ping(&client, &third) > 0);
	kr_conn_close(client.conn, false);
	assert_int_equal(first.count, 0);
	RUN_UNTIL(client.closed);
	assert_int_equal(first.count, 1);
	assert_int_equal(first.last_err, -ECONNRESET);
	assert_int_equal(second.count, 0);
	assert_int_equal(third.count, 1);
}

static void close_at_once(struct side *side, const struct kr_frame *frame)
{
	(void)frame;
	kr_conn_close(side->conn, side->frames % 2 == 0);
}

static void closing_inside_a_frame_ends_delivery(void **state)
{
	(void)state;
	connect_both();
	server.hook = close_at_once;
	for (uint64_t i = 0; i < 50; i++)
		send_extent(&client, i, 100, 1);
	RUN_UNTIL(server.closed && client.closed);
	assert_int_equal(server.frames, 1);
}

static void close_the_side(struct answers *answers)
{
	if (answers->side->conn && answers->last_err == 0)
		kr_conn_close(answers->side->conn, false);
}

static void closing_inside_a_reply_ends_the_others(void **state)
{
	struct answers first = {.hook = close_the_side, .side = &client}, second = {0};

	(void)state;
	connect_both();
	server.hook = answer_ping;
	assert_true(ping(&client, &first) > 0);
	assert_true(ping(&client, &second) > 0);
	RUN_UNTIL(client.closed);
	assert_int_equal(first.count, 1);
	assert_int_equal(first.last_err, 0);
	assert_int_equal(second.last_err, -ECONNRESET);
}

static void a_refused_connection_is_told_through_on_closed(void **state)
{
	struct sockaddr_in nobody = address;
	struct answers answers = {0};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(nobody);

	(void)state;
	nobody.sin_port = 0; /* bound, not listening: nobody else gets this port */
	assert_int_equal(bind(fd, (const struct sockaddr *)&nobody, sizeof(nobody)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&nobody, &size), 0);
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&nobody, &handler, &client, &client.conn), 0);
	assert_true(ping(&client, &answers) > 0);
	RUN_UNTIL(client.closed);
	assert_int_equal(client.err, -ECONNREFUSED);
	assert_int_equal(answers.last_err, -ECONNRESET);
	close(fd);
}

static void a_unix_socket_works_too(void **state)
{
	struct sockaddr_un path = {.sun_family = AF_UNIX};
	struct answers answers = {0};
	char host[16], directory[] = "/tmp/kairan-conn-XXXXXX";
	uv_pipe_t pipe;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path.sun_path, sizeof(path.sun_path), "%s/socket", directory);
	uv_pipe_init(&loop, &pipe, 0);
	assert_int_equal(uv_pipe_bind(&pipe, path.sun_path), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&pipe, 4, on_connection), 0);
	server.hook = answer_ping;
	assert_int_equal(kr_conn_connect(&loop, (const struct sockaddr *)&path, &handler, &client, &client.conn), 0);
	assert_true(ping(&client, &answers) > 0);
	RUN_UNTIL(answers.count);
	assert_int_equal(answers.last_err, 0);
	assert_string_equal(kr_conn_peer(server.conn), "local");
	kr_conn_peer_host(server.conn, host, sizeof(host));
	assert_string_equal(host, "");
	uv_close((uv_handle_t *)&pipe, NULL);
	run_a_little();
	unlink(path.sun_path);
	rmdir(directory);
}

static void a_listener_survives_running_out_of_descriptors(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), next = dup(fd);
	struct answers answers = {0};
	struct rlimit old, low;
	char byte;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = (rlim_t)next;
	close(next);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	RUN_UNTIL(recv(fd, &byte, 1, 0) >= 0 || errno != EAGAIN || server.conn);
	assert_null(server.conn);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	close(fd);
	connect_both();
	server.hook = answer_ping;
	assert_true(ping(&client, &answers) > 0);
	RUN_UNTIL(answers.count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_peaceful_end_is_no_error),
		TEST(closing_with_flush_sends_what_is_queued),
		TEST(a_flush_survives_what_the_peer_still_sends),
		TEST(closing_while_sending_drops_the_rest),
		TEST(a_reset_leaves_nothing_to_arrive_later),
		TEST(closing_before_the_connection_stands_is_safe),
		TEST(unanswered_requests_end_before_the_connection),
		TEST(closing_inside_a_frame_ends_delivery),
		TEST(closing_inside_a_reply_ends_the_others),
		TEST(a_refused_connection_is_told_through_on_closed),
		TEST(a_unix_socket_works_too),
		TEST(a_listener_survives_running_out_of_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
