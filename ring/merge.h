/* The streaming merge of a flush round: two ascending streams of extents become one.  Pure, single-threaded.
 *
 * Inputs are LOW (what comes from the upstream neighbour) and HIGH (one's own, later in ring order): where both have a
 * byte, HIGH's is kept. The output is ascending and without overlap, in pieces of at most KR_BLOCK_SIZE bytes; adjacent
 * small extents are joined into pieces as large as that allows (one of half a block or more may go as it is, uncopied).
 * Nothing is invented for gaps. With one side ended at once it validates and coalesces a single stream.
 */
#ifndef KR_RING_MERGE_H
#define KR_RING_MERGE_H

#include "common/base/buf.h"
#include "common/base/list.h"

/* What an extent takes in memory besides its bytes, at most: its buffer's head, and its place in the queue. */
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
	uint64_t next;  /* the lowest offset that may come now */
	uint64_t bytes; /* queued, and KR_MERGE_COST for each extent */
	bool ended;
};
struct kr_merge {
	struct kr_merge_input input[2];
	struct kr_piece pending; /* output being joined; its buf is our own while `pending_own` */
	bool pending_own;
};

void kr_merge_init(struct kr_merge *merge);
void kr_merge_fini(struct kr_merge *merge);
/* The next extent of SIDE, any length > 0; takes a reference of its own to BUF, whose bytes must not change any more.
 * -EBADMSG: it lies before the end of the former one, is empty, goes past INT64_MAX, or the side has ended; the merge
 * must not be used further. -ENOMEM. */
int kr_merge_push(struct kr_merge *merge, enum kr_merge_side side, uint64_t offset, struct kr_buf *buf, size_t start,
	size_t length);
/* SIDE has no more. */
void kr_merge_end(struct kr_merge *merge, enum kr_merge_side side);
/* The next output: 1 and *RET_PIECE (its buf is owned by the caller now); 0: more input is needed first
 * (kr_merge_wants), or, when kr_merge_done, that was all; -ENOMEM: nothing is lost, may be called again. */
int kr_merge_pop(struct kr_merge *merge, struct kr_piece *ret_piece);
/* Whether the output waits for SIDE. */
bool kr_merge_wants(const struct kr_merge *merge, enum kr_merge_side side);
/* Both sides have ended and all has been popped. */
bool kr_merge_done(const struct kr_merge *merge);
/* Bytes pushed and not yet popped, and what their extents take beside them, for back-pressure: a million extents of one
 * byte are much. */
uint64_t kr_merge_queued(const struct kr_merge *merge, enum kr_merge_side side);

#endif
