/* Data access of one rank alone: exact extents of the file, strided or not, without data sieving of writes.
 *
 * Collective calls without an exchange, and non-blocking collectives without threads, use it too.
 */
#ifndef KR_MPIIO_INDEPENDENT_H
#define KR_MPIIO_INDEPENDENT_H

#include "mpiio/twophase/access.h"
#include "mpiio/twophase/file.h"

/* Does ACCESS; types that the layer cannot read go through MPI's own explicit offset calls.  An MPI error class;
 * *RET_DONE: bytes done (a read may end at the file's end).  _alone is an independent call, _direct this rank's part of
 * a collective one (write_order.h).  Any number of threads at a time. */
int kr_independent_alone(struct kr_mpifile *file, struct kr_access *access, uint64_t *ret_done);
int kr_independent_direct(struct kr_mpifile *file, struct kr_access *access, uint64_t *ret_done);

#endif
