/* The pipeline of one file: which nodes read it, and from whom each of them pulls.  A pure state machine.
 *
 * Members stand in ring order: natural order of names (n2 before n10), then node number. The order is cyclic and begins
 * at the place of the node that joined first; that place stays the beginning, also after this node has left, until the
 * pipeline is empty. A member's upstream is the nearest earlier member that has not failed for it; the server (node 0)
 * feeds the first. As the order of two members never turns round during a pipeline's life, nodes that still wait for a
 * former upstream and nodes that ask a new one can never wait for each other in a circle.  In the next pipeline of the
 * file (the server was started anew) it may turn round: so its members take back what they asked in the former
 * (kr_puller_renew).
 */
#ifndef KR_RING_PIPELINE_H
#define KR_RING_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_pipeline_member;

struct kr_pipeline {
	struct kr_pipeline_member *members; /* in the order described above */
	size_t count, capacity;
	char *anchor_name;
	uint32_t anchor_node;
};

/* NODE pulls from UPSTREAM (0 = the server) from now on: tell it.  Must not call back into the pipeline. */
typedef void (*kr_pipeline_change_fn)(void *context, uint32_t node, uint32_t upstream);

void kr_pipeline_init(struct kr_pipeline *pipeline);
void kr_pipeline_fini(struct kr_pipeline *pipeline);
static inline bool kr_pipeline_empty(const struct kr_pipeline *pipeline)
{
	return pipeline->count == 0;
}
bool kr_pipeline_has(const struct kr_pipeline *pipeline, uint32_t node);

/* NODE (not 0), with its place in the ring given by NAME (copied), joins; joining again forgets what had failed for it
 * and where it had failed. *RET_UPSTREAM is for the reply to NODE; CHANGE hears of every other member whose upstream is
 * another now. 0 or -ENOMEM (nothing changed). */
int kr_pipeline_join(struct kr_pipeline *pipeline, uint32_t node, const char *name, kr_pipeline_change_fn change,
	void *context, uint32_t *ret_upstream);
/* NODE has left or is lost.  Whether it was a member. */
bool kr_pipeline_leave(struct kr_pipeline *pipeline, uint32_t node, kr_pipeline_change_fn change, void *context);
/* FAILED does not serve NODE: NODE's upstream is another from now on, as returned in *RET_UPSTREAM (for the reply to
 * NODE; others' upstreams do not change). FAILED 0 (the server) is never taken out. -ENOENT: NODE is no member. */
int kr_pipeline_reparent(struct kr_pipeline *pipeline, uint32_t node, uint32_t failed, uint32_t *ret_upstream);
/* Whom NODE pulls from now; 0 also for a node that is no member. */
uint32_t kr_pipeline_upstream(const struct kr_pipeline *pipeline, uint32_t node);

#endif
