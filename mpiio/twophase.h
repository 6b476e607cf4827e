/* Two-phase collective I/O in rounds: stripe by stripe the ranks exchange with the stripes' aggregators, which alone touch the
 * file.
 *
 * In a round every aggregator has one window of the file (stripes.h).  Only pairs of a rank and an aggregator that have bytes
 * there exchange a message, and it holds just these bytes, in file order; both sides compute its length.  Sends are issued in
 * the order of the schedule (order.h) within a bounded window; receives of a round are all posted when the round begins.
 *
 * Why nobody waits for ever: take the ranks that are in the earliest round.  Whoever is in that round or later has posted
 * his receives of it, so all sends of it end, so do the receives; file I/O waits for no message.
 *
 * Errors: after a failed read or write an aggregator goes on exchanging and leaves its file alone; the class travels with the
 * agreement at the end of the call.
 */
#ifndef KR_MPIIO_TWOPHASE_H
#define KR_MPIIO_TWOPHASE_H

#include "mpiio/collective.h"

/* This rank's part of the planned call; an MPI error class of this rank's alone.  *RET_DONE: its bytes done. */
int kr_twophase_write(struct kr_plan *plan, uint64_t *ret_done);
int kr_twophase_read(struct kr_plan *plan, uint64_t *ret_done);

#endif
