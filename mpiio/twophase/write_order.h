/* The order of writes of different nodes to the same bytes of a file on a kairan mount.
 *
 * There the writes of different nodes have no order by themselves. A flush of the first gives one, or a read by another
 * node, which makes the writers flush.  But the writes of one process must keep their order, though some go through an
 * aggregator on another node.  HDF5 also expects a collective write to be over on all ranks when it returns, and to go
 * over what one rank wrote before a barrier.
 *
 * A rank writes *alone* when its bytes do not go through the aggregators: in independent calls, and in collective calls
 * without an exchange.  It remembers the range of these bytes, so that only calls that meet it pay for an order:
 *
 * - Before its first independent write, and its first one after a collective write, a rank reads a byte of the file,
 *   strictly.  So does each rank before a collective write without an exchange that follows one with an exchange.
 * - Before a collective write with an exchange, the ranks that have written alone flush, and all wait for that.  So they
 *   do before one without an exchange, if it may go over bytes that another rank has written alone.
 *
 * The first independent write counts because HDF5 fills a dataset in one process, and then lets the others write to it.
 * The program orders other independent writes of several ranks to the same bytes, by MPI_File_sync.  On other file
 * systems every write is over when it returns, and these steps are left out.
 */
#ifndef KR_MPIIO_WRITE_ORDER_H
#define KR_MPIIO_WRITE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct kr_mpifile;

/* Atomic, because several threads may make independent calls. */
struct kr_write_order {
	bool needed;                /* a kairan mount on all ranks; never changes */
	int64_t alone_lo, alone_hi; /* this rank wrote here alone since the last sync or settling; empty: nowhere */
	bool exchanged;             /* aggregators have written since the last sync */
	bool others_wrote;          /* other ranks may have written since this rank waited for them */
};

/* At the open; NEEDED: all ranks are on a kairan mount. */
void kr_write_order_init(struct kr_mpifile *file, bool needed);

/* Call before an independent write of this rank to [LO, HI) (_alone), or before one as part of a collective call
 * (_direct).  0 or -errno. */
int kr_write_order_alone(struct kr_mpifile *file, int64_t lo, int64_t hi);
int kr_write_order_direct(struct kr_mpifile *file, int64_t lo, int64_t hi);
/* After writes that the layer does not see, or a change of aggregators: as if this rank had written alone everywhere.
 */
void kr_write_order_unseen(struct kr_mpifile *file);
/* Where this rank wrote alone; *RET_LO >= *RET_HI: nowhere. */
void kr_write_order_where_alone(struct kr_mpifile *file, int64_t *ret_lo, int64_t *ret_hi);
/* Whether an aggregator's node may still have its bytes unflushed. */
bool kr_write_order_was_exchanged(struct kr_mpifile *file);
/* All that ranks wrote alone comes before all that follows.  Collective; an MPI error class, the same on all ranks. */
int kr_write_order_settle(struct kr_mpifile *file);
/* Call before a write by exchange. */
void kr_write_order_exchange(struct kr_mpifile *file);
/* After MPI_File_sync: no writes are left to order. */
void kr_write_order_synced(struct kr_mpifile *file);

#endif
