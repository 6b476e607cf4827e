/* The streaming merge of a flush round: two ascending streams of extents become one.  Pure, single-threaded.
 *
 * LOW comes from the upstream neighbour; HIGH is the node's own stream, later in ring order.  Where both have a byte,
 * HIGH's wins.  The output is ascending and without overlap, in pieces of at most KR_BLOCK_SIZE bytes.  The merge joins
 * small adjacent extents up to that size; it may pass on one of half a block or more uncopied.
 * The merge never fills gaps.  If one side ends at once, the merge validates and joins a single stream.
 */
#ifndef KR_RING_MERGE_H
#define KR_RING_MERGE_H

#include "common/base/buf.h"
#include "common/base/list.h"

/* The memory of an extent besides its bytes, at most: its buffer's head, and its place in the queue. */
enum { KR_MERGE_COST = 256 };

enum kr_merge_side { KR_MERGE_LOW, KR_MERGE_HIGH };

/* `length` bytes from buf->data + start belong at `offset`. */
struct kr_piece {
	uint64_t offset;
	struct kr_buf *buf;
	size_t start, length;
};

struct kr_merge_input {
	struct kr_list queue;
	uint64_t next;  /* the lowest valid offset for the next extent */
	uint64_t bytes; /* queued, and KR_MERGE_COST for each extent */
	bool ended;
};
struct kr_merge {
	struct kr_merge_input input[2];
	struct kr_piece pending; /* output under construction; `pending_own`: in a buffer of the merge */
	bool pending_own;
};

void kr_merge_init(struct kr_merge *merge);
void kr_merge_fini(struct kr_merge *merge);
/* Takes the next extent of SIDE, any length > 0, and its own reference to BUF, whose bytes must not change any more.
 * -EBADMSG: the extent lies before the end of the former one, is empty, goes past INT64_MAX, or the side has ended;
 * then the merge must not be used further.  -ENOMEM. */
int kr_merge_push(struct kr_merge *merge, enum kr_merge_side side, uint64_t offset, struct kr_buf *buf, size_t start,
	size_t length);
/* SIDE has no more extents. */
void kr_merge_end(struct kr_merge *merge, enum kr_merge_side side);
/* The next output.  1: the caller owns the buf of *RET_PIECE.  0: the merge needs more input (kr_merge_wants), or is
 * done (kr_merge_done).  -ENOMEM: nothing is lost, and a later call may succeed. */
int kr_merge_pop(struct kr_merge *merge, struct kr_piece *ret_piece);
/* Whether the output waits for SIDE. */
bool kr_merge_wants(const struct kr_merge *merge, enum kr_merge_side side);
/* Both sides have ended and all has been popped. */
bool kr_merge_done(const struct kr_merge *merge);
/* Bytes pushed and not yet popped, with KR_MERGE_COST for each extent, for back-pressure. */
uint64_t kr_merge_queued(const struct kr_merge *merge, enum kr_merge_side side);

#endif
