/* The pipeline of one file: its reading nodes, and the upstream of each.  A pure state machine.
 *
 * Members stand in ring order (common/base/ring_order.h).  The order is cyclic and begins at the anchor: the place of
 * the node that joined first.  The anchor stays until the pipeline is empty, also after that node has left.  A member's
 * upstream is the nearest earlier member that has not failed for it; the server (node 0) feeds the first.
 * A member that was found slow stands behind all that were not, until it leaves.  The latest of them stands first:
 * it may have been slow because of an earlier one.
 *
 * Otherwise the order of two members never changes during a pipeline's life.  So nodes that still wait for a former
 * upstream, and nodes that ask a new one, can never wait for each other in a circle.  Where a member is moved,
 * those that pulled from it withdraw their requests, and it refuses what others wait for (UPSTREAM).  After a restart
 * of the server the file's next pipeline may have another order: so its members withdraw their requests to the former
 * one (kr_puller_renew).
 */
#ifndef KR_RING_PIPELINE_H
#define KR_RING_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_pipeline_member;

struct kr_pipeline {
	struct kr_pipeline_member *members; /* in the order above */
	size_t count, capacity;
	char *anchor_name;
	uint32_t anchor_node;
};

/* From now on NODE pulls from UPSTREAM (0: the server), and must be informed.  Must not call back into the pipeline. */
typedef void (*kr_pipeline_change_fn)(void *context, uint32_t node, uint32_t upstream);

void kr_pipeline_init(struct kr_pipeline *pipeline);
void kr_pipeline_fini(struct kr_pipeline *pipeline);
static inline bool kr_pipeline_empty(const struct kr_pipeline *pipeline)
{
	return pipeline->count == 0;
}
bool kr_pipeline_has(const struct kr_pipeline *pipeline, uint32_t node);

/* NODE (not 0) joins; NAME (copied) gives its place in the ring.  A node that joins again gets a clean record of
 * failures.  *RET_UPSTREAM is for the reply to NODE.  CHANGE gets every other member whose upstream changes.  0 or
 * -ENOMEM (no change). */
int kr_pipeline_join(struct kr_pipeline *pipeline, uint32_t node, const char *name, kr_pipeline_change_fn change,
	void *context, uint32_t *ret_upstream);
/* NODE has left or is lost.  Returns whether it was a member. */
bool kr_pipeline_leave(struct kr_pipeline *pipeline, uint32_t node, kr_pipeline_change_fn change, void *context);
/* FAILED does not serve NODE: NODE gets another upstream, *RET_UPSTREAM, for the reply to NODE.  Other nodes' upstreams
 * do not change.  FAILED 0 (the server) stays in.  -ENOENT: NODE is no member. */
int kr_pipeline_reparent(struct kr_pipeline *pipeline, uint32_t node, uint32_t failed, uint32_t *ret_upstream);
/* The member before SLOW, which NODE may ask beside SLOW; 0: the server.  It has not failed for NODE.  -ENOENT: SLOW
 * does not stand before NODE. */
int kr_pipeline_beside(const struct kr_pipeline *pipeline, uint32_t node, uint32_t slow, uint32_t *ret_beside);
/* NODE has found its upstream SLOW slow: SLOW moves behind all that are not, or to the end if NODE is slow, too.
 * *RET_UPSTREAM is for the reply to NODE; CHANGE gets every other member whose upstream changes.  -ENOENT: SLOW does
 * not stand before NODE.  -EPERM: SLOW is not NODE's upstream, or NODE is one of the slow members and SLOW is not.
 * -ENOMEM.  After an error nothing has changed. */
int kr_pipeline_put_last(struct kr_pipeline *pipeline, uint32_t node, uint32_t slow, kr_pipeline_change_fn change,
	void *context, uint32_t *ret_upstream);
/* NODE's upstream; 0 also for a node that is no member. */
uint32_t kr_pipeline_upstream(const struct kr_pipeline *pipeline, uint32_t node);

#endif
