/* A bounded share of the jobs for one kind of work, so that a slow disk never takes all threads of libuv's pool.
 * Jobs above the limit wait in order.  Loop thread.
 */
#ifndef KR_SERVER_POOL_SHARE_H
#define KR_SERVER_POOL_SHARE_H

#include "server/base/server.h"

struct kr_pool_share {
	struct kr_server *server;
	size_t limit, running;
	struct kr_list waiting;
};

/* Embedded by the caller; RUN and DONE as those of a kr_job. */
struct kr_pool_share_job {
	struct kr_job job;
	struct kr_pool_share *share;
	struct kr_link link;
	void (*run)(struct kr_pool_share_job *job);
	void (*done)(struct kr_pool_share_job *job);
};

void kr_pool_share_init(struct kr_pool_share *share, struct kr_server *server, size_t limit);
void kr_pool_share_start(struct kr_pool_share *share, struct kr_pool_share_job *job,
	void (*run)(struct kr_pool_share_job *), void (*done)(struct kr_pool_share_job *));

#endif
