/* Serves metrics over HTTP: GET and HEAD of /metrics, for Prometheus and others, and of /, a page
 * for browsers (page.html) that draws what /metrics tells.
 *
 * A thread of libmicrohttpd talks HTTP, so that no client holds up the daemon's loop.  It asks the loop for the text at
 * most a few times a second, however many clients there are.  Connections, their memory and their time are bounded, and
 * each serves one request. */
#ifndef KR_COMMON_METRICS_SERVER_H
#define KR_COMMON_METRICS_SERVER_H

#include <stdbool.h>
#include <uv.h>

struct kr_metrics_server;

/* False: this build lacks libmicrohttpd, and kr_metrics_check refuses all addresses. */
bool kr_metrics_is_built(void);
/* Whether TEXT is ADDR:PORT with a numeric address (IPv6 in brackets) and a port, 0 for any.  -EINVAL or -EOPNOTSUPP
 * with a reason. */
int kr_metrics_check(const char *text);
/* Listens on ADDRESS.  COLLECT runs in the loop's thread and returns the text, owned by the caller, or NULL.  Call in
 * the loop's thread.  -errno with a reason: the address is in use, or not of this machine. */
int kr_metrics_start(uv_loop_t *loop, const char *address, char *(*collect)(void *context), void *context,
	struct kr_metrics_server **ret_server);
/* The loop's thread: ends all connections and the thread.  The loop frees the memory in a later turn.  NULL is fine. */
void kr_metrics_stop(struct kr_metrics_server *server);

#endif
