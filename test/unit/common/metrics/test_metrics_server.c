/* Metrics over HTTP: what is answered, how many times the loop is asked, what hostile clients get, and the end. */
#include "common/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "common/metrics/exposition.h"

enum { CLIENTS = 100 };

struct loop {
	uv_loop_t uv;
	uv_async_t stop;
	pthread_t thread;
	struct kr_metrics_server *server;
	_Atomic int collected;
	uint16_t port;
};

static const struct kr_metric metrics[] = {{"x", .path = "x", .help = "X."}};

static json_t *collect(void *context)
{
	struct loop *loop = context;

	assert_true(pthread_equal(pthread_self(), loop->thread));
	loop->collected++;
	return json_pack("{s:i}", "x", 1);
}

static void on_stop(uv_async_t *async)
{
	struct loop *loop = async->data;

	kr_metrics_stop(loop->server);
	uv_close((uv_handle_t *)async, NULL);
}

static void *run(void *context)
{
	struct loop *loop = context;

	uv_run(&loop->uv, UV_RUN_DEFAULT);
	return NULL;
}

/* A free port of the loopback address. */
static uint16_t free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	getsockname(fd, (struct sockaddr *)&address, &size);
	close(fd);
	return ntohs(address.sin_port);
}

static int serve(struct loop *loop, const char *address)
{
	const struct kr_metrics_source source = {metrics, KR_ARRAY_SIZE(metrics), collect, loop};

	return kr_metrics_start(&loop->uv, address, &source, &loop->server);
}

static void start(struct loop *loop)
{
	char address[40];

	memset(loop, 0, sizeof(*loop));
	loop->port = free_port();
	snprintf(address, sizeof(address), "127.0.0.1:%u", loop->port);
	uv_loop_init(&loop->uv);
	uv_async_init(&loop->uv, &loop->stop, on_stop);
	loop->stop.data = loop;
	assert_int_equal(serve(loop, address), 0);
	assert_int_equal(pthread_create(&loop->thread, NULL, run, loop), 0);
}

static void stop(struct loop *loop)
{
	uv_async_send(&loop->stop);
	pthread_join(loop->thread, NULL);
	assert_int_equal(uv_loop_close(&loop->uv), 0);
}

static int dial(const struct loop *loop)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(loop->port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* What comes until the end; "" after a reset. */
static const char *hear(int fd)
{
	static char text[65536];
	size_t length = 0;
	ssize_t got;

	while ((got = recv(fd, text + length, sizeof(text) - 1 - length, 0)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	close(fd);
	return text;
}

static const char *ask(const struct loop *loop, const char *request)
{
	int fd = dial(loop);

	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
	return hear(fd);
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static void only_get_and_head_of_metrics_and_the_page_are_served(void **state)
{
	struct loop loop;
	const char *text;

	(void)state;
	start(&loop);
	text = ask(&loop, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(begins(text, "HTTP/1.1 200 "));
	assert_non_null(strstr(text, "application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
	assert_non_null(strstr(text, "\r\n\r\n# TYPE x gauge\n# HELP x X.\nx 1\n# EOF\n"));
	text = ask(&loop, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(begins(text, "HTTP/1.1 200 "));
	assert_non_null(strstr(text, "Content-Length: 37\r\n"));
	assert_null(strstr(text, "EOF"));
	text = ask(&loop, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(begins(text, "HTTP/1.1 200 "));
	assert_non_null(strstr(text, "text/html; charset=utf-8\r\n"));
	assert_non_null(strstr(text, "\r\n\r\n<!DOCTYPE html>\n"));
	assert_non_null(strstr(text, "</html>\n"));
	text = ask(&loop, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(begins(text, "HTTP/1.1 200 "));
	assert_null(strstr(text, "html>"));
	assert_true(begins(ask(&loop, "POST / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 405 "));
	assert_true(begins(ask(&loop, "GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 404 "));
	text = ask(&loop, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
	assert_true(begins(text, "HTTP/1.1 405 "));
	assert_non_null(strstr(text, "Allow: GET, HEAD\r\n"));
	stop(&loop);
}

static void many_requests_ask_the_loop_a_few_times(void **state)
{
	struct loop loop;
	uint64_t begun_ns = kr_clock_ns();

	(void)state;
	start(&loop);
	for (int i = 0; i < CLIENTS; i++)
		assert_true(begins(ask(&loop, "GET /metrics HTTP/1.0\r\n\r\n"), "HTTP/1.0 200 ") ||
			begins(ask(&loop, "GET /metrics HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 "));
	assert_in_range(loop.collected, 1, 2 + (kr_clock_ns() - begun_ns) / (200 * KR_NS_PER_MS));
	stop(&loop);
}

static void a_head_of_a_megabyte_is_refused(void **state)
{
	enum { SIZE = 1 << 20 };
	char *request = kr_xmalloc(SIZE + 1);
	struct loop loop;
	int fd;

	(void)state;
	memset(request, 'a', SIZE);
	memcpy(request, "GET /metrics HTTP/1.1\r\nX: ", 26);
	start(&loop);
	fd = dial(&loop);
	for (size_t sent = 0; sent < SIZE;) {
		ssize_t got = send(fd, request + sent, SIZE - sent, MSG_NOSIGNAL);

		if (got < 0)
			break;
		sent += (size_t)got;
	}
	assert_null(strstr(hear(fd), " 200 "));
	free(request);
	assert_true(begins(ask(&loop, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200 "));
	stop(&loop);
}

/* The connection lasts no longer although its bytes come. */
static void a_slow_request_ends(void **state)
{
	struct loop loop;
	uint64_t begun_ns = kr_clock_ns();
	int fd;

	(void)state;
	start(&loop);
	fd = dial(&loop);
	while (send(fd, "G", 1, MSG_NOSIGNAL) == 1 && kr_clock_ns() - begun_ns < 20000 * KR_NS_PER_MS) {
		struct pollfd ended = {.fd = fd, .events = POLLIN};

		if (poll(&ended, 1, 200) > 0)
			break;
	}
	assert_in_range((kr_clock_ns() - begun_ns) / KR_NS_PER_MS, 5000, 15000);
	close(fd);
	stop(&loop);
}

static void bad_addresses_are_named(void **state)
{
	static const char *const bad[] = {"", "9440", "localhost:9440", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
		"127.0.0.1:65536", "[::1]", "::1:9440", "[::1", "*:9440", "127.0.0.1:9440:1"};
	static const char *const good[] = {"127.0.0.1:9440", "[::1]:9440", "0.0.0.0:1", "[::]:0"};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(bad); i++) {
		if (kr_metrics_check(bad[i]) != -EINVAL)
			fail_msg("%s is taken", bad[i]);
		assert_true(begins(kr_fail_reason(), "metrics: "));
	}
	for (size_t i = 0; i < KR_ARRAY_SIZE(good); i++)
		if (kr_metrics_check(good[i]) != 0)
			fail_msg("%s: %s", good[i], kr_fail_reason());
}

static void a_port_in_use_is_an_error(void **state)
{
	struct loop loop, other = {0};
	char address[40];

	(void)state;
	start(&loop);
	uv_loop_init(&other.uv);
	snprintf(address, sizeof(address), "127.0.0.1:%u", loop.port);
	assert_int_equal(serve(&other, address), -EADDRINUSE);
	assert_non_null(strstr(kr_fail_reason(), "in use"));
	assert_true(serve(&other, "192.0.2.1:0") < 0);
	assert_int_equal(uv_loop_close(&other.uv), 0);
	stop(&loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_get_and_head_of_metrics_and_the_page_are_served),
		cmocka_unit_test(many_requests_ask_the_loop_a_few_times),
		cmocka_unit_test(a_head_of_a_megabyte_is_refused),
		cmocka_unit_test(a_slow_request_ends),
		cmocka_unit_test(bad_addresses_are_named),
		cmocka_unit_test(a_port_in_use_is_an_error),
	};

	if (kr_metrics_check("127.0.0.1:0") == -EOPNOTSUPP)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
