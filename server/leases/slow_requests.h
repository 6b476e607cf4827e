/* Requests that wait for long.  The status counts them; the log names each when the server notices it and when it
 * ends.
 */
#ifndef KR_SERVER_SLOW_REQUESTS_H
#define KR_SERVER_SLOW_REQUESTS_H

#include <jansson.h>
#include <stdint.h>

struct kr_server;

/* Longer than this many lease times.  LOCK does not count: it waits as long as another node has the lock. */
enum { KR_SLOW_REQUESTS_LEASES = 2 };

void kr_slow_requests_init(struct kr_server *server);
void kr_slow_requests_tick(struct kr_server *server, uint64_t now_ns);
/* {"count", "oldest_ms", "request", "node", "for"}: the requests that wait for so long; "for": the node that has not
 * given a lease back. */
json_t *kr_slow_requests_status(const struct kr_server *server, uint64_t now_ns);

#endif
