/* The order in which a rank sends to the aggregators, and an aggregator receives from the ranks: the schedules of
 * collective I/O that respect process placement.
 *
 * The names come from the paper on ROMIO on TSUBAME2.5 by Tsujita et al.  So does the idea that the schedules differ in
 * which node receives from which at a time.  The paper's algorithms and figures 4 to 7 were not at hand, so THE
 * DEFINITIONS BELOW ARE OUR RECONSTRUCTION.  Their aim: no node's link is the target of two nodes at a time.
 *
 * Every schedule is a sequence of steps; in a step a rank sends to at most one aggregator.  With P ranks, N nodes, A
 * the largest number of aggregators on a node, R the largest number of ranks on a node, rank r being the l-th of node
 * n:
 *   rank           P steps; step s: to rank s, if it is an aggregator.  All hit the same aggregator at the same time
 *                  (as ROMIO does).
 *   pairwise       P steps; step s: to rank (r + s + 1) mod P, if it is an aggregator.  Ignores nodes.
 *   nd_shift       N * A steps; step s * A + j: to aggregator j of node (n + s + 1) mod N.  In a step a node receives
 *                  from one node only, but all ranks of that hit the same aggregator.
 *   nd_rank_shift  N * B steps, B = max(A, R); step s * B + j: to aggregator i = (l + j) mod B of node (n + s + 1) mod
 *                  N, if there is one.  As before, and in a step an aggregator receives from one rank only.
 * So the rank's own node (and in pairwise the rank itself) comes last: the links are busy from the first step.  A
 * node's aggregators count in the order of kr_aggregators.  Steps have no barrier between them: each rank keeps its own
 * order, with a bounded number of sends under way.
 *
 * For reads the same steps run with the roles exchanged: an aggregator sends in the order of kr_order_receives.  Pure;
 * any thread.
 */
#ifndef KR_MPIIO_SEND_ORDER_H
#define KR_MPIIO_SEND_ORDER_H

#include "mpiio/schedule/aggregators.h"

enum kr_order { KR_ORDER_RANK, KR_ORDER_PAIRWISE, KR_ORDER_ND_SHIFT, KR_ORDER_ND_RANK_SHIFT };

/* "rank", "pairwise", "nd_shift", "nd_rank_shift"; false: no such order. */
bool kr_order_parse(const char *name, enum kr_order *ret_order);
const char *kr_order_name(enum kr_order order);

/* All aggregators (their numbers) in the order in which RANK sends to them: RET_TARGETS has room for, and gets,
 * aggregators->count.  0 or -ENOMEM. */
int kr_order_sends(enum kr_order order, const struct kr_topology *topology, const struct kr_aggregators *aggregators,
	uint32_t rank, uint32_t *ret_targets);
/* All ranks in the order of the steps in which they send to AGGREGATOR; ranks of one step ascending.  RET_SOURCES has
 * room for, and gets, topology->ranks.  0 or -ENOMEM. */
int kr_order_receives(enum kr_order order, const struct kr_topology *topology, const struct kr_aggregators *aggregators,
	uint32_t aggregator, uint32_t *ret_sources);

#endif
