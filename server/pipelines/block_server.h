/* Feeds blocks to those who pull from the server: reads in the pool, answers in the order in which blocks are ready.
 *
 * A block counts only if the file has the asked version after it was read and no change began meanwhile; else the pull
 * ends with STALE.  Per connection at most KR_BLOCK_SERVER_JOBS jobs of up to KR_BLOCK_SERVER_BLOCKS blocks are at work
 * and at most KR_BLOCK_SERVER_QUEUE bytes, in KR_BLOCK_SERVER_FRAMES, wait for the peer: a slow peer holds up itself
 * only.  While much memory is in use (session.h) that is KR_BLOCK_SERVER_QUEUE_TIGHT, with what the jobs will add, and
 * KR_BLOCK_SERVER_NODE_TIGHT for all connections of a node together.  Pulls of one connection take turns. Loop thread.
 */
#ifndef KR_SERVER_BLOCK_SERVER_H
#define KR_SERVER_BLOCK_SERVER_H

#include "common/rpc/conn.h"

struct kr_data;
struct kr_hop;

enum {
	KR_BLOCK_SERVER_JOBS = 4,
	KR_BLOCK_SERVER_BLOCKS = 8,
	KR_BLOCK_SERVER_PULLS = 256,   /* unanswered on one connection: above, it is paused */
	KR_BLOCK_SERVER_RANGES = 4096, /* of blocks, in these: the same */
	KR_BLOCK_SERVER_QUEUE = 4 << 20,
	KR_BLOCK_SERVER_FRAMES =
		KR_CONN_UNTAKEN_MAX / 2, /* of which the queue may have so many, however short they are */
	KR_BLOCK_SERVER_SHORT = KR_BLOCK_SIZE / 4,
	KR_BLOCK_SERVER_QUEUE_TIGHT = KR_CONN_LOW_WATER + (128 << 10),
	KR_BLOCK_SERVER_NODE_TIGHT = 2 << 20,
};

void kr_block_server_pull(struct kr_hop *hop, const struct kr_frame *frame);
/* The connection's queue has drained: goes on. */
void kr_block_server_go_on(struct kr_hop *hop);
void kr_block_server_hop_closed(struct kr_hop *hop);
/* Now and then: whose room was taken by other connections of its node may have some again. */
void kr_block_server_tick(struct kr_data *data);

#endif
