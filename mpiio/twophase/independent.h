/* Data access of one rank alone: exact extents of the file, strided or not, without data sieving of writes.
 *
 * Also what a collective call does where an exchange is not worth it, and what non-blocking collectives do without
 * threads.
 */
#ifndef KR_MPIIO_INDEPENDENT_H
#define KR_MPIIO_INDEPENDENT_H

#include "mpiio/twophase/access.h"
#include "mpiio/twophase/file.h"

/* Does ACCESS; what our types cannot express goes through MPI's own explicit offset calls.  An MPI error class;
 * *RET_DONE: bytes done (a read may end at the file's end).  _alone is an independent call, _direct this rank's part of
 * a collective one (turns.h).  Any thread, as often as wanted at a time. */
int kr_independent_alone(struct kr_mpifile *file, struct kr_access *access, uint64_t *ret_done);
int kr_independent_direct(struct kr_mpifile *file, struct kr_access *access, uint64_t *ret_done);

#endif
