/* The seam between the server's core (sessions, names, leases) and its data path (flush rounds, pipelines, feed).
 *
 * The core calls these; the data path implements them and registers its handlers with kr_server_on in kr_data_init:
 * FLUSH, FSYNC, JOIN, LEAVE, REPARENT (FLUSH with KR_HANDLER_IN_GRACE: only for nodes that reclaim, parks otherwise).
 * Loop thread only.
 */
#ifndef KR_SERVER_DATA_H
#define KR_SERVER_DATA_H

#include <jansson.h>

#include "common/conn.h"

struct kr_request;
struct kr_server;
struct kr_session;
struct kr_sfile;

/* Sets server->data. 0 or -errno with a reason. */
int kr_data_init(struct kr_server *server);
/* Everything has ended; frees server->data. */
void kr_data_fini(struct kr_server *server);

/* The session has ended: it leaves pipelines, its rounds are aborted, its parked requests have been withdrawn before.
 * Frees session->data. */
void kr_data_session_ended(struct kr_session *session);
/* Whether the data path needs the file to stay in the table (rounds, joined nodes, applied but not stable). When that ends
 * it must take and put a reference once, so that the file is looked at again. */
bool kr_data_file_busy(const struct kr_sfile *file);
/* The file leaves the table. Frees file->data. */
void kr_data_file_free(struct kr_sfile *file);

/* Makes everything done to the file so far stable (also a truncate just made) and tells nodes so (STABLE); then FN, with 0
 * or the error of the sync. Never from inside the call. */
void kr_data_sync(struct kr_sfile *file, void (*fn)(void *context, int err), void *context);

/* What is known of this node's flushes of the file in this boot; zeros when nothing is. */
void kr_data_applied(struct kr_sfile *file, const uint8_t node_id[16], uint64_t *ret_seq, uint64_t *ret_round);
/* A RECLAIM of the file by this session has been accepted; it will send replays if HAS_REPLAYS. */
void kr_data_reclaimed(struct kr_sfile *file, struct kr_session *session, bool has_replays);
/* The grace period has ended: what was held back for it goes on. Called once per start, also without a grace period. */
void kr_data_grace_over(struct kr_server *server);

/* A connection began with HOP_HELLO: takes it over (kr_conn_set_handler, set_context) or answers with an error and closes. */
void kr_data_hop(struct kr_server *server, struct kr_conn *conn, const struct kr_frame *frame);

/* The server stops: sync what is applied, close ring connections; then FN (within KR_SERVER_STOP_MS or not at all). */
void kr_data_stop(struct kr_server *server, void (*fn)(struct kr_server *server));

/* Adds its part to a status. */
void kr_data_status(const struct kr_server *server, json_t *status);
/* Adds backlog and errors of one file or session, if any. */
void kr_data_session_status(const struct kr_session *session, json_t *status);

#endif
