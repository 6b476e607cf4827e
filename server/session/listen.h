/* Listening sockets, and connections that have not said yet what they are (pending conns).
 *
 * The first frame (after those of the handshake, see trust.h) decides: HELLO begins or resumes a session (hello.c),
 * HOP_HELLO and HOP_PROVE a ring connection (data.h), STATUS is answered; anything else ends the connection with one
 * line in the log.  A pending conn that says nothing is dropped.
 */
#ifndef KR_SERVER_LISTEN_H
#define KR_SERVER_LISTEN_H

#include "common/auth/auth.h"
#include "common/auth/pair.h"
#include "common/rpc/conn.h"
#include "server/base/server.h"

struct kr_frame;

enum {
	KR_SERVER_PENDING_CONNS_MAX = 1024, /* connections that have not said HELLO yet; the oldest goes */
};
enum { KR_STRANGER_MS = 10000 };

struct kr_pending_conn {
	struct kr_server *server;
	struct kr_link link;
	struct kr_conn *conn; /* NULL once it is closed */
	uint64_t since_ns;
	struct kr_auth auth; /* where the server has keys: see trust.h */
	struct kr_pair pair; /* of a ring connection: see hop.h */
	uint32_t hop_node;
	uint64_t hop_session;
	bool busy; /* its HELLO is being worked on: who does that frees it (kr_pending_conn_free) */
};

void kr_listen_init(struct kr_server *server);
/* Whether the addresses of the options can be listened on now, before anything is made. Needs no server. Reason by
 * kr_fail. */
int kr_listen_check(const struct kr_server_options *options);
int kr_listen_start(struct kr_server *server);
void kr_listen_stop(struct kr_server *server);
void kr_listen_fini(struct kr_server *server);
/* Drops pending conns that have been silent for too long. */
void kr_listen_tick(struct kr_server *server, uint64_t now_ns);
/* Port of the first listening socket (tests listen on port 0). */
uint16_t kr_listen_port(const struct kr_server *server);

/* Ends a pending conn: hands its connection over to the caller (NULL if it has been closed meanwhile). */
struct kr_conn *kr_pending_conn_take(struct kr_pending_conn *pending_conn);

#endif
