/* Serves metrics over HTTP: GET and HEAD of /metrics, for Prometheus and others, and of /, a page for browsers
 * (page.html) that shows what /metrics tells.
 *
 * A thread of libmicrohttpd talks HTTP and makes the text, so that no client holds up the daemon's loop.  The thread
 * asks the loop for the figures at most a few times a second, however many clients there are.  Connections, their
 * memory and their time are bounded, and each serves one request. */
#ifndef KR_COMMON_METRICS_SERVER_H
#define KR_COMMON_METRICS_SERVER_H

#include <jansson.h>
#include <stddef.h>
#include <uv.h>

struct kr_metric;
struct kr_metrics_server;

/* What is served: METRICS (exposition.h) of the figures that COLLECT returns, owned by the caller, or NULL.  COLLECT
 * runs in the loop's thread. */
struct kr_metrics_source {
	const struct kr_metric *metrics; /* for as long as the server runs */
	size_t count;
	json_t *(*collect)(void *context);
	void *context;
};

/* Whether TEXT is ADDR:PORT with a numeric address (IPv6 in brackets) and a port, 0 for any.  -EINVAL with a
 * reason; -EOPNOTSUPP, with a reason, for all: this build lacks libmicrohttpd. */
int kr_metrics_check(const char *text);
/* Listens on ADDRESS.  Copies SOURCE.  Call in the loop's thread.  -errno with a reason: the address is in use, or not
 * of this machine. */
int kr_metrics_start(uv_loop_t *loop, const char *address, const struct kr_metrics_source *source,
	struct kr_metrics_server **ret_server);
/* The loop's thread: ends all connections and the thread.  The loop frees the memory in a later turn.  NULL is fine. */
void kr_metrics_stop(struct kr_metrics_server *server);

#endif
