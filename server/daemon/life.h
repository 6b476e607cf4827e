/* The start, the tick and the orderly end of the server.  Loop thread. */
#ifndef KR_SERVER_LIFE_H
#define KR_SERVER_LIFE_H

#include <jansson.h>

#include "common/metrics/metrics_server.h"
#include "server/base/server.h"
#include "server/daemon/shutdown.h"
#include "server/base/doubtful_times.h"

/* The daemon room's part of the server. */
struct kr_daemon {
	uv_timer_t tick; /* expiry of sessions and pending connections, grace */
	uint64_t ticked_ns;
	struct kr_doubts doubts;
	struct kr_shutdown end;
	_Atomic bool unsynced;             /* kr_server_unsynced */
	struct kr_metrics_server *metrics; /* NULL: not asked for, or not yet */
	bool ticking_export;
	uint64_t export_ticked_ns;
};

/* Handles STATUS: the server as JSON, for `kairan status HOST` (status.c). */
void kr_status_register(struct kr_server *server);
/* Only those numbers of the status that cost the same with many nodes and files as with few; owned. */
json_t *kr_server_figures(const struct kr_server *server);
/* An array with the name, ring and numbers of each node, ring by ring in ring order, owned. */
json_t *kr_server_node_figures(const struct kr_server *server);
/* Serves both as metrics, if the options ask for that (server_metrics.c).  0 or -errno with a reason. */
int kr_server_metrics_start(struct kr_server *server);
/* Fills and starts everything but the listeners, in this order: state, export, handlers, data, grace.  Borrows LOOP
 * and OPTIONS until kr_server_fini.  0 or -errno with kr_fail's reason, then nothing is left behind. */
int kr_server_init(struct kr_server *server, uv_loop_t *loop, const struct kr_server_options *options);
/* Binds the addresses of the options and accepts. Reason by kr_fail. */
int kr_server_listen(struct kr_server *server);
/* A sync of the shutdown has failed: not all that was applied is known to be on the export's disk. */
bool kr_server_unsynced(const struct kr_server *server);
/* Begins the clean shutdown: no new connections, running jobs finish, applied bytes are synced, connections close.
 * Then the loop has nothing left to do and uv_run returns, within twice KR_SERVER_STOP_MS (shutdown.h).  Node records
 * stay, so that the nodes can reclaim at the next start. */
void kr_server_stop(struct kr_server *server);
/* Frees the rest; the loop has ended. */
void kr_server_fini(struct kr_server *server);

#endif
