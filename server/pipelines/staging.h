/* STAGE and WHERE: a node asks that all nodes of its ring stage a file, or what they have of it (msgs.def).  Loop
 * thread. */
#ifndef KR_SERVER_STAGING_H
#define KR_SERVER_STAGING_H

#include <stddef.h>
#include <stdint.h>

struct kr_server;

enum {
	KR_SESSION_PREFETCHES = 2048,
	KR_SERVER_PREFETCHES = 16384
}; /* callbacks at a time for one session's requests, and for all */

/* Of all sessions. */
struct kr_staging {
	size_t waiting;    /* requests in the queues ... */
	size_t prefetches; /* ... and callbacks out for the others */
	uint64_t turn;     /* how many requests have begun */
};

void kr_staging_register(struct kr_server *server);
void kr_staging_fini(struct kr_server *server);

#endif
