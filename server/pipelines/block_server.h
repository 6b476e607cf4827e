/* The block server answers PULLs: it reads in the pool and sends the blocks in the order in which they are ready.
 *
 * A block counts only if the file has the asked version after the read and no change began meanwhile.  Else the PULL
 * ends with STALE.  A connection has at most KR_BLOCK_SERVER_JOBS jobs of up to KR_BLOCK_SERVER_BLOCKS blocks.  At
 * most KR_BLOCK_SERVER_QUEUE bytes, in KR_BLOCK_SERVER_FRAMES, wait for its peer: a slow peer delays only itself.
 *
 * While memory is tight (session.h) the limit is KR_BLOCK_SERVER_QUEUE_TIGHT, with what the jobs will add.  All
 * connections of a node together then have KR_BLOCK_SERVER_NODE_TIGHT.  The PULLs of a connection are served round
 * robin.  Loop thread.
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
	KR_BLOCK_SERVER_FRAMES = KR_CONN_UNTAKEN_MAX / 2, /* so many short frames may the queue have */
	KR_BLOCK_SERVER_SHORT = KR_BLOCK_SIZE / 4,
	KR_BLOCK_SERVER_QUEUE_TIGHT = KR_CONN_LOW_WATER + (128 << 10),
	KR_BLOCK_SERVER_NODE_TIGHT = 2 << 20,
};

void kr_block_server_pull(struct kr_hop *hop, const struct kr_frame *frame);
/* The connection's queue has drained: goes on. */
void kr_block_server_go_on(struct kr_hop *hop);
void kr_block_server_hop_closed(struct kr_hop *hop);
/* Every tick: a connection may have room again that others of its node had taken. */
void kr_block_server_tick(struct kr_data *data);

#endif
