/* Two-phase collective I/O in rounds: stripe by stripe the ranks exchange bytes with the stripes' aggregators; only
 * aggregators access the file.
 *
 * In a round every aggregator has one window of the file (stripes.h).  A rank and an aggregator exchange a message only
 * if the rank has bytes there; the message holds just these bytes, in file order, and both sides compute its length.
 * Sends follow the schedule (send_order.h) within a bounded window.  When a round begins, all its receives are posted.
 *
 * Rounds overlap.  An aggregator begins a round as soon as one of its slots is free, whatever the state of earlier
 * rounds; so messages of the next rounds fill the links while the last ones of a round trickle in.  One slot means no
 * overlap.  Each rank has one loop, which begins a round, sends a message or finishes a round if it can. Else it waits
 * for MPI or the I/O thread.
 *
 * Why there is no deadlock: take the earliest round that some rank has not finished.  All slots for it become free,
 * since the earlier rounds are over and file I/O waits for no message.  So all its receives are posted, and as messages
 * go out in the order of rounds all its sends end.
 *
 * Errors: after a failed read or write an aggregator goes on exchanging but leaves the file alone; the agreement at the
 * end of the call carries the error class.
 */
#ifndef KR_MPIIO_TWOPHASE_H
#define KR_MPIIO_TWOPHASE_H

#include "mpiio/twophase/collective.h"

/* This rank's part of the planned call.  Errors of this rank alone are recorded at the plan.  Returns its bytes done,
 * if there is no error. */
uint64_t kr_twophase_write(struct kr_plan *plan);
uint64_t kr_twophase_read(struct kr_plan *plan);

#endif
