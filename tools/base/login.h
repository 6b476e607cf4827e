/* How a tool proves itself to a server: with a key, by MUNGE, or not at all. */
#ifndef KR_TOOLS_LOGIN_H
#define KR_TOOLS_LOGIN_H

#include <jansson.h>

#include "common/auth/conn_login.h"

/* The user's credentials; all zero: none. */
struct kr_tool_proof {
	const char *key; /* file; NULL */
	bool munge;
	const char *munge_socket; /* NULL: munged's usual one */
	uint32_t munge_uid;       /* the uid under which the server runs */
};

/* For getopt_long; with 'k' among the short options, if there are any. */
#define KR_TOOL_PROOF_OPTIONS \
	{"key", required_argument, NULL, 'k'}, {"munge", no_argument, NULL, 'm'}, \
		{"munge-socket", required_argument, NULL, 's'}, \
	{ \
		"munge-uid", required_argument, NULL, 'u' \
	}
/* Takes an OPTION of getopt_long that the command itself does not know: one of these, --help or a mistake.  -1: the
 * command goes on; else its exit code, after a message (by USAGE). */
int kr_tool_proof_take(struct kr_tool_proof *proof, int option, const char *usage);
/* After all options of a command with at most one argument: as above, for COUNT arguments and both ways of proof. */
int kr_tool_proof_end(const struct kr_tool_proof *proof, int count, const char *usage);

struct kr_tool_login {
	struct kr_tool_proof proof; /* texts are borrowed, from the caller or from options */
	json_t *options;            /* section "mount" of KR_OPTIONS_FILE; NULL: not read */
	struct kr_conn_login handshake;
};

/* Reads the key.  Without a key or MUNGE in PROOF the options of this machine's mounts count, except a key that the
 * user may not read.  Errors leave a reason by kr_fail; needs fini in any case. */
int kr_tool_login_init(struct kr_tool_login *login, const struct kr_tool_proof *proof);
void kr_tool_login_fini(struct kr_tool_login *login);

#endif
