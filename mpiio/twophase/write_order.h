/* The order of writes of different nodes to the same bytes of a file on a kairan mount.
 *
 * There the writes of different nodes have no order by themselves. A flush of the first gives one, or a read by another
 * node, which makes the writers flush.  But the writes of one process must keep their order, though some go through an
 * aggregator on another node.  HDF5 also expects a collective write to be over on all ranks when it returns.
 *
 *   before a rank writes alone after a collective write   it reads a byte of the file, strictly
 *   before a collective write without an exchange, after one with an exchange   the same
 *   before an exchange, if some rank wrote alone          these ranks flush, and all wait for it
 *
 * The program orders writes that several ranks do alone to the same bytes, by MPI_File_sync.  On other filesystems
 * every write is over when it returns, and these steps are left out.
 */
#ifndef KR_MPIIO_WRITE_ORDER_H
#define KR_MPIIO_WRITE_ORDER_H

#include <stdbool.h>

struct kr_mpifile;

/* Atomic, because several threads may make independent calls. */
struct kr_write_order {
	bool needed;    /* a kairan mount on all ranks; never changes */
	bool alone;     /* this rank wrote without the aggregators since the last sync or exchange */
	bool exchanged; /* aggregators have written since */
	bool collected; /* there was a collective write since */
};

/* Call before an independent write of this rank (_alone), or before one as part of a collective call (_direct).  0 or
 * -errno. */
int kr_write_order_alone(struct kr_mpifile *file);
int kr_write_order_direct(struct kr_mpifile *file);
/* After writes that the layer does not see, or a change of aggregators: as if this rank had written alone. */
void kr_write_order_unseen(struct kr_mpifile *file);
bool kr_write_order_was_alone(struct kr_mpifile *file);
/* Whether an aggregator's node may still have its bytes unflushed. */
bool kr_write_order_was_exchanged(struct kr_mpifile *file);
/* Call before a write by exchange; ANY: some rank was alone.  Collective; an MPI error class, the same on all ranks. */
int kr_write_order_exchange(struct kr_mpifile *file, bool any);
/* After MPI_File_sync: no writes are left to order. */
void kr_write_order_synced(struct kr_mpifile *file);

#endif
