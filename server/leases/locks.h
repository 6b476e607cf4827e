/* Locks wired to sessions: handlers of LOCK, LOCK_TEST and RECLAIM_LOCK. What they mean: common/base/lock_table.h. Loop
 * thread. */
#ifndef KR_SERVER_LOCKS_H
#define KR_SERVER_LOCKS_H

struct kr_server;
struct kr_session;

enum {
	KR_SESSION_LOCKS_MAX = 16384, /* ranges; above, NOLCK */
	KR_SESSION_LOCK_WAITS_MAX = 4096,
	KR_FILE_LOCK_WAITS_MAX = 8192, /* of all sessions */
};

void kr_locks_init(struct kr_server *server);
void kr_locks_fini(struct kr_server *server);
void kr_locks_register(struct kr_server *server);
/* The server ends: nobody gets a lock any more because sessions end, as their nodes will claim theirs from the next
 * one. */
void kr_locks_freeze(struct kr_server *server);

#endif
