/* Brief jobs: short blocking calls that need no other thread.
 *
 * A job in libuv's pool costs two switches of threads, more than most calls on the export take.  So the loop thread
 * does a few such jobs by itself when it has handled its events.  A job may block all the same.  So the spare thread
 * looks every KR_BRIEF_MS whether the job still runs.  If it does, the spare thread goes on as the loop thread, and
 * gives all jobs to the pool.  The other thread finishes its job, hands it over to the new loop thread, and is the
 * spare thread from then on.
 *
 * So a slow disk holds up other requests for twice KR_BRIEF_MS at most.  After a long job the pool has all jobs for a
 * while, where they run beside each other.  One loop in a process has this. */
#ifndef KR_SERVER_BRIEF_H
#define KR_SERVER_BRIEF_H

#include <stdbool.h>
#include <uv.h>

#include "common/base/list.h"

enum { KR_BRIEF_MS = 2, KR_BRIEFS_WAITING = 2 };

struct kr_brief {
	uv_work_t work; /* in the pool */
	struct kr_link link;
	void (*run)(struct kr_brief *brief);
	void (*done)(struct kr_brief *brief);
};

/* Loop thread.  RUN runs outside the loop, never inside this call, and then DONE in the loop, which may free BRIEF.
 * IN_POOL: it takes long. */
void kr_brief_start(uv_loop_t *loop, struct kr_brief *brief, bool in_pool, void (*run)(struct kr_brief *),
	void (*done)(struct kr_brief *));

/* Runs LOOP until it ends. */
void kr_brief_serve(uv_loop_t *loop);

#endif
