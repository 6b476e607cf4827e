/* The client's side of the handshakes (auth.h, auth_munge.h) on a connection, before HELLO, or a request without it.
 * Threads of the pool make and open MUNGE's credentials. */
#ifndef KR_COMMON_CONN_LOGIN_H
#define KR_COMMON_CONN_LOGIN_H

#include "common/auth/auth.h"
#include "common/rpc/conn.h"

struct kr_credential;

/* The caller fills in how the client proves itself; all zero: not at all. */
struct kr_conn_login {
	struct kr_key *key; /* reference, which fini drops; NULL: MUNGE, or none */
	bool munge;
	const char *munge_socket; /* NULL: munged's usual one; borrowed */
	uint32_t munge_uid;       /* the uid under which the server runs */
	enum kr_security least;

	struct kr_auth auth;
	struct kr_conn *conn;
	struct kr_credential *credential; /* in the pool */
	void (*done)(void *context, int err);
	void *context;
};

/* Authenticates on CONN, just made, then calls DONE, with a reason by kr_fail that tells the user what to do.  If the
 * connection ends before, DONE does not run. */
void kr_conn_login_begin(
	struct kr_conn_login *login, struct kr_conn *conn, void (*done)(void *context, int err), void *context);
/* The connection has ended: call it from its on_closed. */
void kr_conn_login_stop(struct kr_conn_login *login);
void kr_conn_login_fini(struct kr_conn_login *login);

#endif
