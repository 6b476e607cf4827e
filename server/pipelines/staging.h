/* STAGE: a node asks that all nodes of its ring stage a file (msgs.def).  Loop thread. */
#ifndef KR_SERVER_STAGING_H
#define KR_SERVER_STAGING_H

struct kr_server;

enum {
	KR_SESSION_PREFETCHES = 2048,
	KR_SERVER_PREFETCHES = 16384
}; /* questions at a time for one session's STAGEs, and for all */

void kr_staging_register(struct kr_server *server);

#endif
