/* Locks for sessions: handlers of LOCK, LOCK_TEST and RECLAIM_LOCK.  common/base/lock_table.h says what locks mean.
 * Loop thread.
 */
#ifndef KR_SERVER_LOCKS_H
#define KR_SERVER_LOCKS_H

struct kr_server;

enum {
	KR_SESSION_LOCKS_MAX = 16384, /* ranges; above, ENOLCK */
	KR_SESSION_LOCK_WAITS_MAX = 4096,
	KR_FILE_LOCK_WAITS_MAX = 8192, /* of all sessions */
};

void kr_locks_init(struct kr_server *server);
void kr_locks_fini(struct kr_server *server);
void kr_locks_register(struct kr_server *server);
/* The server stops: the end of a session passes its locks to no other node.  The nodes will reclaim theirs from the
 * next instance. */
void kr_locks_freeze(struct kr_server *server);

#endif
