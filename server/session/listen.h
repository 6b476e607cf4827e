/* Listening sockets and pending connections, which have not sent their first frame.
 *
 * The first frame after the handshake (trust.h) decides. HELLO begins or resumes a session (hello.c), HOP_HELLO and
 * HOP_PROVE a ring connection (flush/hop.c), and the server answers STATUS and INTRODUCE. Any other frame ends it with
 * one log line, and KR_PENDING_CONN_MS of silence end it without. */
#ifndef KR_SERVER_LISTEN_H
#define KR_SERVER_LISTEN_H

#include "common/auth/auth.h"
#include "common/auth/pair.h"
#include "common/rpc/conn.h"
#include "server/base/server.h"

struct kr_frame;

enum {
	KR_SERVER_PENDING_CONNS_MAX = 1024, /* the server drops the oldest above that */
};
enum { KR_PENDING_CONN_MS = 10000 };

struct kr_pending_conn {
	struct kr_server *server;
	struct kr_link link;
	struct kr_conn *conn; /* NULL once it is closed */
	uint64_t since_ns;
	struct kr_auth auth; /* where the server has keys (trust.h) */
	struct kr_pair pair; /* of a ring connection (flush/hop.h) */
	uint32_t hop_node;
	uint64_t hop_session;
	bool busy; /* HELLO or MUNGE is at work in the pool and frees it (kr_pending_conn_take) */
};

void kr_listen_init(struct kr_server *server);
/* Whether the options' addresses are free, before the server makes anything. Reason by kr_fail. */
int kr_listen_check(const struct kr_server_options *options);
int kr_listen_start(struct kr_server *server);
void kr_listen_stop(struct kr_server *server);
void kr_listen_fini(struct kr_server *server);
/* Drops pending connections that were silent for too long. */
void kr_listen_tick(struct kr_server *server, uint64_t now_ns);
/* Port of the first listening socket (tests listen on port 0). */
uint16_t kr_listen_port(const struct kr_server *server);

/* Frees a pending connection and returns its kr_conn, NULL if that has closed meanwhile. */
struct kr_conn *kr_pending_conn_take(struct kr_pending_conn *pending_conn);

#endif
