/* What many ranks touch in a window of the file, as sorted extents.
 *
 * Input is a cursor per rank (ascending rank; monotonic views), each seeked to the window's start; they are merged by
 * a heap, so time is O(runs * log ranks) and memory is what comes out.  Pure; one thread per object.
 */
#ifndef KR_MPIIO_EXTENTS_H
#define KR_MPIIO_EXTENTS_H

#include "mpiio/datatype/cursor.h"

/* Sorted, disjoint, not touching each other. */
struct kr_extents {
	struct kr_run *runs;
	size_t count, capacity;
	uint64_t bytes; /* sum of the lengths */
	bool overlap;   /* some byte is touched by two ranks */
};

void kr_extents_init(struct kr_extents *extents);
void kr_extents_fini(struct kr_extents *extents);
/* Replaces what EXTENTS holds (its memory is used again) by the union of what the COUNT cursors have below offset
 * LIMIT.  The cursors end at LIMIT. 0 or -ENOMEM. */
int kr_extents_union(struct kr_extents *extents, struct kr_cursor *const *cursors, size_t count, int64_t limit);

#endif
