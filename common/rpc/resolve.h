/* From HOST[:PORT] to socket addresses. */
#ifndef KR_COMMON_RESOLVE_H
#define KR_COMMON_RESOLVE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

struct kr_endpoint {
	char host[256];
	uint16_t port;
};
enum { KR_ADDRESSES_MAX = 8 };
/* The addresses of an endpoint, in getaddrinfo's order of preference. */
struct kr_addresses {
	struct sockaddr_storage items[KR_ADDRESSES_MAX];
	size_t count; /* > 0 */
};

/* Splits "fs1", "fs1:7440", "10.0.0.1:7440", "[fe80::1]:7440", "fe80::1" (more than one colon: all of it is the host).
 * -EINVAL with a reason: no host, a host too long, a port that is not 1..65535 (0 too, where ZERO_PORT: "any"). */
int kr_endpoint_parse(const char *text, uint16_t default_port, bool zero_port, struct kr_endpoint *ret);
/* "fs1:7440", "[fe80::1]:7440". */
void kr_endpoint_format(const struct kr_endpoint *endpoint, char *text, size_t size);
/* A socket address as "10.0.0.1:7440"; "local" for AF_UNIX. */
void kr_address_format(const struct sockaddr *address, char *text, size_t size);
/* The numeric host alone, an IPv4 address mapped into IPv6 as IPv4; "" for AF_UNIX. */
void kr_address_host(const struct sockaddr *address, char *host, size_t size);
/* Whether it is a loopback address (127/8, ::1) or AF_UNIX. */
bool kr_address_is_loopback(const struct sockaddr *address);

/* Blocks in getaddrinfo; any thread. PASSIVE: for listening ("" or "*" = every address). -ENOENT no such host, -EAGAIN
 * the name service does not answer, -ENOMEM, -EIO, with a reason. */
int kr_resolve(const struct kr_endpoint *endpoint, bool passive, struct kr_addresses *ret);

typedef void (*kr_resolve_fn)(void *context, int err, const struct kr_addresses *addresses);
struct kr_resolve;
/* The same in a thread of its own; CALLBACK runs in the loop's thread, exactly once unless cancelled, with the reason,
 * which does not name the host, in kr_fail_reason when ERR is not 0. Less than 0: no thread. */
int kr_resolve_start(uv_loop_t *loop, const struct kr_endpoint *endpoint, kr_resolve_fn callback, void *context,
	struct kr_resolve **ret_resolve);
/* From now on the callback does not run; REQUEST frees itself. Only before the callback has run, in the loop's thread,
 * whose loop need not wait for a name service that does not answer. */
void kr_resolve_cancel(struct kr_resolve *request);

#endif
