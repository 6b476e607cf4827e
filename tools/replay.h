/* kairan journal --replay: sends a dead node's journal to the server. */
#ifndef KR_TOOLS_REPLAY_H
#define KR_TOOLS_REPLAY_H

#include "tools/base/login.h"

enum { KR_REPLAY_MAX_S = 86400 };

struct kr_replay {
	const char *directory; /* the node's local directory, or journal/ in it */
	const char *server;    /* HOST[:PORT] */
	struct kr_tool_proof proof;
	const char *security;     /* the least security; NULL: the mount's option */
	unsigned long timeout_ms; /* the limit; 0: KR_REPLAY_MAX_S */
};

/* Replays and prints where the bytes went.  Exit code: 0 all is on the server, 1 some bytes are not, 2 failure. */
int kr_replay(const struct kr_replay *replay);

#endif
