/* kairan journal --replay: brings a dead node's journal to the server. */
#ifndef KR_TOOLS_REPLAY_H
#define KR_TOOLS_REPLAY_H

struct kr_replay {
	const char *directory;       /* the node's local directory, or journal/ in it */
	const char *server;          /* HOST[:PORT] */
	const char *key;             /* file; NULL */
	const char *timeout;         /* seconds; NULL: a day */
};

/* Prints what went where. Exit code: 0 all is on the server, 1 some bytes are not, 2 it could not be done. */
int kr_replay(const struct kr_replay *replay);

#endif
