/* Host names to addresses: see resolve.h. */
#include "common/rpc/resolve.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"

static int parse_port(const char *text, bool zero_port, const char *whole, uint16_t *ret_port)
{
	unsigned long port = 0;

	for (const char *c = text; *c; c++) {
		port = port * 10 + (unsigned long)(*c - '0');
		if (!isdigit((unsigned char)*c) || port > UINT16_MAX)
			return kr_fail(-EINVAL, "%s: \"%s\" is not a port (1 to 65535)", whole, text);
	}
	if (!*text || (port == 0 && !zero_port))
		return kr_fail(-EINVAL, "%s: \"%s\" is not a port (1 to 65535)", whole, text);
	*ret_port = (uint16_t)port;
	return 0;
}

/* Finds where the host ends and where the port begins (NULL: none). */
static int split(const char *text, const char **ret_host, size_t *ret_length, const char **ret_port)
{
	const char *colon = strchr(text, ':');

	if (*text == '[') {
		const char *close = strchr(text, ']');

		if (!close || (close[1] != '\0' && close[1] != ':'))
			return kr_fail(-EINVAL, "%s: write an IPv6 address with a port as [ADDRESS]:PORT", text);
		*ret_host = text + 1;
		*ret_length = (size_t)(close - text - 1);
		*ret_port = close[1] == ':' ? close + 2 : NULL;
		return 0;
	}
	if (colon && strchr(colon + 1, ':'))
		colon = NULL; /* an IPv6 address without brackets */
	*ret_host = text;
	*ret_length = colon ? (size_t)(colon - text) : strlen(text);
	*ret_port = colon ? colon + 1 : NULL;
	return 0;
}

int kr_endpoint_parse(const char *text, uint16_t default_port, bool zero_port, struct kr_endpoint *ret)
{
	struct kr_endpoint endpoint = {.port = default_port};
	const char *host, *port;
	size_t length;
	int err = split(text, &host, &length, &port);

	if (err)
		return err;
	if (length == 0)
		return kr_fail(-EINVAL, "\"%s\" names no host", text);
	if (length >= sizeof(endpoint.host))
		return kr_fail(-EINVAL, "\"%.40s...\": the host's name is too long", text);
	memcpy(endpoint.host, host, length);
	err = port ? parse_port(port, zero_port, text, &endpoint.port) : 0;
	if (!err)
		*ret = endpoint;
	return err;
}

void kr_endpoint_format(const struct kr_endpoint *endpoint, char *text, size_t size)
{
	snprintf(text, size, strchr(endpoint->host, ':') ? "[%s]:%u" : "%s:%u", endpoint->host, endpoint->port);
}

static bool is_mapped(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 &&
		IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

void kr_address_host(const struct sockaddr *address, char *host, size_t size)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;

	if (size > 0)
		*host = '\0';
	if (address->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, host, (socklen_t)size);
	else if (is_mapped(address))
		inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], host, (socklen_t)size);
	else if (address->sa_family == AF_INET6) /* with the zone of a link-local address */
		getnameinfo(address, sizeof(*six), host, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
}

void kr_address_format(const struct sockaddr *address, char *text, size_t size)
{
	struct kr_endpoint endpoint;

	if (address->sa_family != AF_INET && address->sa_family != AF_INET6) {
		snprintf(text, size, "%s", address->sa_family == AF_UNIX ? "local" : "unknown");
		return;
	}
	kr_address_host(address, endpoint.host, sizeof(endpoint.host));
	endpoint.port = ntohs(address->sa_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port :
							      ((const struct sockaddr_in6 *)address)->sin6_port);
	kr_endpoint_format(&endpoint, text, size);
}

bool kr_address_is_loopback(const struct sockaddr *address)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;

	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (is_mapped(address))
		return six->sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
	return address->sa_family == AF_UNIX;
}

static int fail_gai(int error)
{
	switch (error) {
	case EAI_NONAME:
	case EAI_NODATA:
		return kr_fail(-ENOENT, "no such host (is the name right, and known to this machine?)");
	case EAI_AGAIN:
		return kr_fail(-EAGAIN, "the name service does not answer (is it reachable from here?)");
	case EAI_MEMORY:
		return kr_fail(-ENOMEM, "out of memory");
	default:
		return kr_fail(-EIO, "%s (by the name service)", gai_strerror(error));
	}
}

/* The reason does not name the host. */
static int resolve(const struct kr_endpoint *endpoint, bool passive, struct kr_addresses *ret)
{
	bool any = passive && (!*endpoint->host || strcmp(endpoint->host, "*") == 0);
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
	struct kr_addresses addresses = {0};
	struct addrinfo *found;
	char port[8];
	int error;

	snprintf(port, sizeof(port), "%u", endpoint->port);
	error = getaddrinfo(any ? NULL : endpoint->host, port, &hints, &found);
	if (error)
		return fail_gai(error);
	for (struct addrinfo *info = found; info && addresses.count < KR_ADDRESSES_MAX; info = info->ai_next)
		if (info->ai_family == AF_INET || info->ai_family == AF_INET6)
			memcpy(&addresses.items[addresses.count++], info->ai_addr, info->ai_addrlen);
	freeaddrinfo(found);
	if (addresses.count == 0)
		return fail_gai(EAI_NONAME);
	*ret = addresses;
	return 0;
}

int kr_resolve(const struct kr_endpoint *endpoint, bool passive, struct kr_addresses *ret)
{
	int err = resolve(endpoint, passive, ret);

	return err < 0 ? kr_fail(err, "%s: %s", endpoint->host, kr_fail_reason()) : 0;
}

/* The thread, which no code waits for, and the loop, by the handle, both have it. Not uv_getaddrinfo: once begun it
 * cannot be cancelled, and neither the loop nor the process ends before the name service has answered. */
struct kr_resolve {
	uv_async_t handle;
	struct kr_endpoint endpoint;
	struct kr_addresses addresses;
	int err;
	char reason[320];
	kr_resolve_fn callback;
	void *context;
	pthread_mutex_t lock;
	bool given_up; /* the handle is being closed */
	atomic_uint owners;
};

static void disown(struct kr_resolve *request)
{
	if (atomic_fetch_sub(&request->owners, 1) > 1)
		return;
	pthread_mutex_destroy(&request->lock);
	free(request);
}

static void on_handle_closed(uv_handle_t *handle)
{
	disown(KR_CONTAINER_OF(handle, struct kr_resolve, handle));
}

static void *resolve_in_thread(void *context)
{
	struct kr_resolve *request = context;

	request->err = resolve(&request->endpoint, false, &request->addresses);
	if (request->err)
		snprintf(request->reason, sizeof(request->reason), "%s", kr_fail_reason());
	pthread_mutex_lock(&request->lock);
	if (!request->given_up)
		uv_async_send(&request->handle);
	pthread_mutex_unlock(&request->lock);
	disown(request);
	return NULL;
}

static void on_resolved(uv_async_t *handle)
{
	struct kr_resolve *request = KR_CONTAINER_OF(handle, struct kr_resolve, handle);
	bool given_up;

	/* The lock is what makes the answer visible here. */
	pthread_mutex_lock(&request->lock);
	given_up = request->given_up;
	request->given_up = true;
	pthread_mutex_unlock(&request->lock);
	if (given_up)
		return;
	if (request->err)
		kr_fail(request->err, "%s", request->reason);
	request->callback(request->context, request->err, request->err ? NULL : &request->addresses);
	uv_close((uv_handle_t *)handle, on_handle_closed);
}

int kr_resolve_start(uv_loop_t *loop, const struct kr_endpoint *endpoint, kr_resolve_fn callback, void *context,
	struct kr_resolve **ret_resolve)
{
	struct kr_resolve *request = kr_xcalloc(1, sizeof(*request));
	pthread_t thread;
	int err;

	request->endpoint = *endpoint;
	request->callback = callback;
	request->context = context;
	request->owners = 2;
	pthread_mutex_init(&request->lock, NULL);
	uv_async_init(loop, &request->handle, on_resolved);
	err = -pthread_create(&thread, NULL, resolve_in_thread, request);
	if (err < 0) {
		request->owners = 1;
		uv_close((uv_handle_t *)&request->handle, on_handle_closed);
		return kr_fail_errno(err, "cannot resolve %s", endpoint->host);
	}
	pthread_detach(thread);
	if (ret_resolve)
		*ret_resolve = request;
	return 0;
}

void kr_resolve_cancel(struct kr_resolve *request)
{
	if (!request)
		return;
	pthread_mutex_lock(&request->lock);
	request->given_up = true;
	pthread_mutex_unlock(&request->lock);
	uv_close((uv_handle_t *)&request->handle, on_handle_closed);
}
