/* The handshake of a tool with a server: with a key, by MUNGE, or none.  Munged is asked in the loop: a tool has
 * nothing else to do. */
#ifndef KR_TOOLS_LOGIN_H
#define KR_TOOLS_LOGIN_H

#include "common/auth/auth.h"
#include "common/rpc/conn.h"

/* What the user gives. All zero: nothing to prove. */
struct kr_tool_proof {
	const char *key; /* file; NULL */
	bool munge;
	const char *munge_socket; /* NULL: where munged usually listens */
	uint32_t munge_uid;       /* as whom the server runs */
};

/* Of getopt_long; with 'k' among the short ones, if there are any. */
#define KR_TOOL_PROOF_OPTIONS \
	{"key", required_argument, NULL, 'k'}, {"munge", no_argument, NULL, 'm'}, \
		{"munge-socket", required_argument, NULL, 's'}, \
	{ \
		"munge-uid", required_argument, NULL, 'u' \
	}
/* Takes what getopt_long has found and the command itself does not know: one of these, or what ends it: help, a
 * mistake.  -1: it goes on; else its exit code, and people have been told why (by USAGE). */
int kr_tool_proof_take(struct kr_tool_proof *proof, int option, const char *usage);

struct kr_tool_login {
	const struct kr_tool_proof *proof; /* borrowed */
	struct kr_key *key;
	struct kr_auth auth;
	struct kr_conn *conn;
	void (*done)(void *context, int err);
	void *context;
};

/* Reads the key. Reason by kr_fail; to be ended by fini in any case. */
int kr_tool_login_init(struct kr_tool_login *login, const struct kr_tool_proof *proof);
/* On CONN, just made: then DONE, with a reason by kr_fail; not if the connection ends before. */
void kr_tool_login_begin(
	struct kr_tool_login *login, struct kr_conn *conn, void (*done)(void *context, int err), void *context);
void kr_tool_login_fini(struct kr_tool_login *login);

#endif
