/* HOST[:PORT] and addresses; only numeric hosts, so that no name service is asked. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

#include "common/base/fail.h"
#include "common/rpc/resolve.h"
#include "common/base/util.h"

static void endpoints_are_split(void **state)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
		const char *formatted;
	} cases[] = {
		{"fs1", "fs1", 7440, "fs1:7440"},
		{"fs1:80", "fs1", 80, "fs1:80"},
		{"10.0.0.1:65535", "10.0.0.1", 65535, "10.0.0.1:65535"},
		{"::1", "::1", 7440, "[::1]:7440"},
		{"[::1]", "::1", 7440, "[::1]:7440"},
		{"[fe80::1%eth0]:81", "fe80::1%eth0", 81, "[fe80::1%eth0]:81"},
	};
	struct kr_endpoint endpoint;
	char text[300];

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		assert_int_equal(kr_endpoint_parse(cases[i].text, 7440, false, &endpoint), 0);
		assert_string_equal(endpoint.host, cases[i].host);
		assert_int_equal(endpoint.port, cases[i].port);
		kr_endpoint_format(&endpoint, text, sizeof(text));
		assert_string_equal(text, cases[i].formatted);
	}
	assert_int_equal(kr_endpoint_parse("fs1:0", 7440, true, &endpoint), 0);
	assert_int_equal(endpoint.port, 0);
}

static void bad_endpoints_are_refused_with_a_reason(void **state)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{"", "\"\" names no host"},
		{":80", "\":80\" names no host"},
		{"[]:80", "\"[]:80\" names no host"},
		{"fs1:", "fs1:: \"\" is not a port (1 to 65535)"},
		{"fs1:0", "fs1:0: \"0\" is not a port (1 to 65535)"},
		{"fs1:65536", "fs1:65536: \"65536\" is not a port (1 to 65535)"},
		{"fs1:99999999999999999999",
			"fs1:99999999999999999999: \"99999999999999999999\" is not a port (1 to 65535)"},
		{"fs1:8a", "fs1:8a: \"8a\" is not a port (1 to 65535)"},
		{"fs1:-1", "fs1:-1: \"-1\" is not a port (1 to 65535)"},
		{"[::1", "[::1: write an IPv6 address with a port as [ADDRESS]:PORT"},
		{"[::1]80", "[::1]80: write an IPv6 address with a port as [ADDRESS]:PORT"},
	};
	char longest[400];
	struct kr_endpoint endpoint;

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		assert_int_equal(kr_endpoint_parse(cases[i].text, 7440, false, &endpoint), -EINVAL);
		assert_string_equal(kr_fail_reason(), cases[i].reason);
	}
	memset(longest, 'h', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(kr_endpoint_parse(longest, 7440, false, &endpoint), -EINVAL);
}

static void numeric_hosts_resolve(void **state)
{
	struct kr_endpoint endpoint = {"127.0.0.1", 81};
	struct kr_addresses addresses;
	char text[80];

	(void)state;
	assert_int_equal(kr_resolve(&endpoint, false, &addresses), 0);
	assert_int_equal(addresses.count, 1);
	kr_address_format((const struct sockaddr *)&addresses.items[0], text, sizeof(text));
	assert_string_equal(text, "127.0.0.1:81");
	assert_true(kr_address_is_loopback((const struct sockaddr *)&addresses.items[0]));
	strcpy(endpoint.host, "*");
	assert_int_equal(kr_resolve(&endpoint, true, &addresses), 0);
	assert_false(kr_address_is_loopback((const struct sockaddr *)&addresses.items[0]));
}

static void mapped_addresses_are_shown_as_ipv4(void **state)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	char text[80];

	(void)state;
	inet_pton(AF_INET6, "::ffff:127.0.0.2", &six.sin6_addr);
	kr_address_format((const struct sockaddr *)&six, text, sizeof(text));
	assert_string_equal(text, "127.0.0.2:9");
	assert_true(kr_address_is_loopback((const struct sockaddr *)&six));
	inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr);
	kr_address_format((const struct sockaddr *)&six, text, sizeof(text));
	assert_string_equal(text, "[2001:db8::1]:9");
	assert_false(kr_address_is_loopback((const struct sockaddr *)&six));
	inet_pton(AF_INET6, "::1", &six.sin6_addr);
	assert_true(kr_address_is_loopback((const struct sockaddr *)&six));
	assert_true(kr_address_is_loopback((const struct sockaddr *)&local));
	kr_address_host((const struct sockaddr *)&local, text, sizeof(text));
	assert_string_equal(text, "");
}

struct result {
	int calls, err;
	char reason[128];
	size_t count;
};

static void on_resolved(void *context, int err, const struct kr_addresses *addresses)
{
	struct result *result = context;

	result->calls++;
	result->err = err;
	result->count = addresses ? addresses->count : 0;
	if (err)
		strncpy(result->reason, kr_fail_reason(), sizeof(result->reason) - 1);
}

static void resolving_in_the_background_answers_once(void **state)
{
	struct kr_endpoint good = {"127.0.0.1", 1}, bad = {.port = 1};
	struct result first = {0}, second = {0}, third = {0};
	struct kr_resolve *request;
	uv_loop_t loop;

	(void)state;
	memset(bad.host, 'x', 100); /* longer than a label may be: no name service is asked */
	uv_loop_init(&loop);
	assert_int_equal(kr_resolve_start(&loop, &good, on_resolved, &first, NULL), 0);
	assert_int_equal(kr_resolve_start(&loop, &bad, on_resolved, &second, NULL), 0);
	assert_int_equal(kr_resolve_start(&loop, &good, on_resolved, &third, &request), 0);
	kr_resolve_cancel(request);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	assert_int_equal(first.calls, 1);
	assert_int_equal(first.err, 0);
	assert_int_equal(first.count, 1);
	assert_int_equal(second.calls, 1);
	assert_true(second.err < 0);
	assert_null(strstr(second.reason, bad.host)); /* the caller names it */
	assert_true(kr_resolve(&bad, false, &(struct kr_addresses){0}) < 0);
	assert_true(strncmp(kr_fail_reason(), bad.host, 100) == 0);
	assert_int_equal(third.calls, 0);
}

static sem_t asked, answer;

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
	if (!node || strcmp(node, "silent") != 0)
		return __real_getaddrinfo(node, service, hints, ret);
	sem_post(&asked);
	sem_wait(&answer);
	return EAI_AGAIN;
}

/* Else a mount could not be ended while the name service is away. */
static void a_loop_ends_while_the_name_service_is_silent(void **state)
{
	struct kr_endpoint silent = {"silent", 1};
	struct result result = {0};
	struct kr_resolve *request;
	uv_loop_t loop;

	(void)state;
	sem_init(&asked, 0, 0);
	sem_init(&answer, 0, 0);
	uv_loop_init(&loop);
	assert_int_equal(kr_resolve_start(&loop, &silent, on_resolved, &result, &request), 0);
	sem_wait(&asked);
	kr_resolve_cancel(request);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	assert_int_equal(result.calls, 0);
	sem_post(&answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoints_are_split),
		cmocka_unit_test(bad_endpoints_are_refused_with_a_reason),
		cmocka_unit_test(numeric_hosts_resolve),
		cmocka_unit_test(mapped_addresses_are_shown_as_ipv4),
		cmocka_unit_test(resolving_in_the_background_answers_once),
		cmocka_unit_test(a_loop_ends_while_the_name_service_is_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
