/* What many ranks touch in a window of the file, as sorted extents; and who wins where they overlap.
 *
 * RULE: of two ranks that write the same byte in one collective call, the higher rank wins.
 *
 * Input is a cursor per rank (ascending rank; monotonic views), each seeked to the window's start; they are merged by
 * a heap, so time is O(runs * log ranks) and memory is what comes out.  Pure; one thread per object.
 */
#ifndef KR_MPIIO_EXTENTS_H
#define KR_MPIIO_EXTENTS_H

#include "mpiio/cursor.h"

/* Sorted, disjoint, not touching each other. */
struct kr_extents {
	struct kr_run *runs;
	size_t count, capacity;
	uint64_t bytes;   /* sum of the lengths */
	bool overlap;     /* some byte is touched by two ranks */
};

void kr_extents_init(struct kr_extents *extents);
void kr_extents_fini(struct kr_extents *extents);
/* Replaces what EXTENTS holds (its memory is used again) by the union of what the COUNT cursors have below offset
 * LIMIT.  The cursors end at LIMIT. 0 or -ENOMEM. */
int kr_extents_union(struct kr_extents *extents, struct kr_cursor *const *cursors, size_t count, int64_t limit);

/* A piece of the window and the cursor (its index) whose bytes it gets. */
struct kr_winner {
	struct kr_run run;
	uint32_t source;
};
struct kr_winners {
	struct kr_winner *pieces; /* sorted, disjoint; neighbours of one source are joined */
	size_t count, capacity;
};

void kr_winners_init(struct kr_winners *winners);
void kr_winners_fini(struct kr_winners *winners);
/* Replaces what WINNERS holds: for every byte that a cursor has below LIMIT, the highest index among those that have
 * it. The cursors end at LIMIT.  0 or -ENOMEM. */
int kr_winners_plan(struct kr_winners *winners, struct kr_cursor *const *cursors, size_t count, int64_t limit);

#endif
