/* kairan journal --replay: brings a dead node's journal to the server. */
#ifndef KR_TOOLS_REPLAY_H
#define KR_TOOLS_REPLAY_H

#include "tools/login.h"

enum { KR_REPLAY_MAX_S = 86400 };

struct kr_replay {
	const char *directory; /* the node's local directory, or journal/ in it */
	const char *server;    /* HOST[:PORT] */
	struct kr_tool_proof proof;
	const char *security;     /* the least that is wanted; NULL: what the mount's would be */
	unsigned long timeout_ms; /* at most, and 0: KR_REPLAY_MAX_S */
};

/* Prints what went where. Exit code: 0 all is on the server, 1 some bytes are not, 2 it could not be done. */
int kr_replay(const struct kr_replay *replay);

#endif
