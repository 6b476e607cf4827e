/* Feeds blocks to those who pull from the server: reads in the pool, answers in the order in which blocks are ready.
 *
 * A block counts only if the file has the asked version after it was read and no change began meanwhile; else the pull ends
 * with STALE.  Per connection at most KR_FEED_JOBS jobs of up to KR_FEED_BLOCKS blocks are at work and at most KR_FEED_QUEUE
 * bytes wait for the peer (KR_FEED_QUEUE_TIGHT when much memory is in use): a slow peer holds up itself only.  Pulls of one
 * connection take turns.  Loop thread.
 */
#ifndef KR_SERVER_FEED_H
#define KR_SERVER_FEED_H

#include "common/conn.h"

struct kr_hop;

enum {
	KR_FEED_JOBS = 4,
	KR_FEED_BLOCKS = 8,
	KR_FEED_PULLS = 256, /* unanswered on one connection: above, it is paused */
	KR_FEED_QUEUE = 4 << 20,
	KR_FEED_QUEUE_TIGHT = KR_CONN_LOW_WATER + (128 << 10), /* above the mark whose crossing wakes us */
	KR_FEED_MEMORY = 256 << 20,
};

void kr_feed_pull(struct kr_hop *hop, const struct kr_frame *frame);
/* The connection's queue has drained: goes on. */
void kr_feed_go_on(struct kr_hop *hop);
void kr_feed_hop_closed(struct kr_hop *hop);

#endif
