/* Requests that wait for long: counted for status, and named in the log, once when it is noticed and once when it is
 * over. */
#ifndef KR_SERVER_SLOW_REQUESTS_H
#define KR_SERVER_SLOW_REQUESTS_H

#include <jansson.h>
#include <stdint.h>

struct kr_request;
struct kr_server;

/* Longer than this many lease times; but for LOCK, which waits as long as somebody has the lock. */
enum { KR_SLOW_REQUESTS_LEASES = 2 };

void kr_slow_requests_init(struct kr_server *server);
void kr_slow_requests_tick(struct kr_server *server, uint64_t now_ns);
/* {"count", "oldest_ms", "request", "node", "for"}: of those that wait for so long; "for": who has not given a lease
 * back. */
json_t *kr_slow_requests_status(const struct kr_server *server, uint64_t now_ns);

#endif
