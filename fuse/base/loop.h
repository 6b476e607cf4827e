/* kr-loop: the node's event loop, and the way into it from other threads.
 *
 * All protocol state of a mount (rpc, session, hops, ops, timers) belongs to the loop thread.  That is kr-loop, or
 * another thread in its place for as long as kr_loop_help takes.  The loop gives blocking disk I/O to libuv's pool with
 * uv_queue_work.
 */
#ifndef KR_FUSE_LOOP_H
#define KR_FUSE_LOOP_H

#include <uv.h>

#include "common/base/list.h"

struct kr_loop;

/* Work for the loop thread, embedded in the caller's struct, so posting cannot fail.  Set FN once and post any number
 * of times; posts of a task that is already queued become one run. */
struct kr_task {
	void (*fn)(struct kr_task *task);
	struct kr_link link;
	bool queued; /* guarded by the loop's lock */
};

/* Makes the loop and starts its thread. */
int kr_loop_new(struct kr_loop **ret_loop);
/* Runs the queued tasks, waits until the handles that are left are closed, and joins the thread.  Not from the loop
 * thread. */
void kr_loop_free(struct kr_loop *loop);
/* For uv_*_init; use only in the loop thread. */
uv_loop_t *kr_loop_uv(struct kr_loop *loop);
/* Whether the caller is the loop thread. */
bool kr_loop_here(const struct kr_loop *loop);

/* Any thread; never blocks.  Tasks run in the order of their posts.  A task never runs inside this call, so the caller
 * may hold locks.  TASK must live until it has run, or until kr_loop_forget. */
void kr_loop_post(struct kr_loop *loop, struct kr_task *task);
/* For a thread that posts and then helps (libfuse's worker).  Tasks that it posts from now on do not wake
 * kr-loop.  The thread calls kr_loop_help soon, and does not wait for the loop before. */
void kr_loop_will_help(void);
/* Runs the loop in kr-loop's place, unless the loop runs just now, until there is nothing left to be done.  A loop that
 * always has something to do goes back to kr-loop soon: programs wait for the caller.  The caller holds no lock. */
void kr_loop_help(struct kr_loop *loop);
/* Loop thread: takes TASK back if it is queued. */
void kr_loop_forget(struct kr_loop *loop, struct kr_task *task);
/* Runs FN in the loop thread and waits for its return; for starting and stopping.  In the loop thread, runs FN at once.
 */
void kr_loop_run(struct kr_loop *loop, void (*fn)(void *context), void *context);

#endif
