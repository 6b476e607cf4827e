/* Two-phase collective I/O in rounds: stripe by stripe the ranks exchange with the stripes' aggregators, which alone
 * touch the file.
 *
 * In a round every aggregator has one window of the file (stripes.h).  Only pairs of a rank and an aggregator that have
 * bytes there exchange a message, and it holds just these bytes, in file order; both sides compute its length.  Sends
 * are issued in the order of the schedule (order.h) within a bounded window; receives of a round are all posted when
 * the round begins.
 *
 * Rounds overlap.  An aggregator begins a round as soon as one of its slots is free, whatever has become of the rounds
 * before; so messages of the next rounds fill the links while the last ones of a round trickle in.  One slot means no
 * overlap at all.  Each rank has one loop, which does whatever can be done (begin a round, send a message, finish a
 * round) and waits for MPI or the I/O thread when nothing can.
 *
 * Why nobody waits for ever: take the earliest round that some rank has not finished.  All slots that it needs become
 * free, since the rounds before are over and file I/O waits for no message; so all its receives are posted, and as
 * messages go out in the order of rounds all its sends end.
 *
 * Errors: after a failed read or write an aggregator goes on exchanging and leaves its file alone; the class travels
 * with the agreement at the end of the call.
 */
#ifndef KR_MPIIO_TWOPHASE_H
#define KR_MPIIO_TWOPHASE_H

#include "mpiio/twophase/collective.h"

/* This rank's part of the planned call; an MPI error class of this rank's alone.  *RET_DONE: its bytes done. */
int kr_twophase_write(struct kr_plan *plan, uint64_t *ret_done);
int kr_twophase_read(struct kr_plan *plan, uint64_t *ret_done);

#endif
