/* The client's side of the handshakes (auth.h, auth_munge.h) on a connection, before a request without HELLO.  It asks
 * munged in the loop's thread: such a client has nothing else to do. */
#ifndef KR_COMMON_CONN_LOGIN_H
#define KR_COMMON_CONN_LOGIN_H

#include "common/auth/auth.h"
#include "common/rpc/conn.h"

/* The caller fills in how the client proves itself; all zero: not at all. */
struct kr_conn_login {
	struct kr_key *key; /* reference, which fini drops; NULL: MUNGE, or none */
	bool munge;
	const char *munge_socket; /* NULL: munged's usual one */
	uint32_t munge_uid;       /* the uid under which the server runs */
	enum kr_security least;

	struct kr_auth auth;
	struct kr_conn *conn;
	void (*done)(void *context, int err);
	void *context;
};

/* Authenticates on CONN, just made, then calls DONE, with a reason by kr_fail.  If the connection ends before, DONE
 * does not run. */
void kr_conn_login_begin(
	struct kr_conn_login *login, struct kr_conn *conn, void (*done)(void *context, int err), void *context);
void kr_conn_login_fini(struct kr_conn_login *login);

#endif
