/* The parts of a file window that many ranks access, as sorted extents.
 *
 * Input is a cursor per rank (ascending rank; monotonic views), each at the window's start.  A heap merges them: time
 * is O(runs * log ranks), and memory is that of the result.  Pure; one thread per object.
 */
#ifndef KR_MPIIO_EXTENTS_H
#define KR_MPIIO_EXTENTS_H

#include "mpiio/datatype/cursor.h"

/* Sorted, disjoint, not touching each other. */
struct kr_extents {
	struct kr_run *runs;
	size_t count, capacity;
	uint64_t bytes; /* sum of the lengths */
	bool overlap;   /* two ranks access some byte */
};

void kr_extents_init(struct kr_extents *extents);
void kr_extents_fini(struct kr_extents *extents);
/* Replaces the content of EXTENTS (and reuses its memory) by the union of the COUNT cursors' runs below offset LIMIT.
 * The cursors end at LIMIT.  0 or -ENOMEM. */
int kr_extents_union(struct kr_extents *extents, struct kr_cursor *const *cursors, size_t count, int64_t limit);

#endif
