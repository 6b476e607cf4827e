/* MPI datatypes as typemaps.  The only part of the typemap code that knows MPI; compiled once per MPI library.
 *
 * Every combiner of MPI-3.1 is read by envelope and contents; where the library has MPI-4's large counts these are
 * used. Lower bound and extent of every level are the library's own (they depend on its alignment rules).  What comes
 * out is checked against the library: a map whose size is not MPI_Type_size_x's is refused, so that a combiner read
 * wrongly can never move a wrong byte.  Threads: as MPI itself allows.
 */
#ifndef KR_MPIIO_TYPEMAP_MPI_H
#define KR_MPIIO_TYPEMAP_MPI_H

#include <mpi.h>

#include "mpiio/datatype/typemap.h"

/* TYPE (need not be committed) as an owned map.  -ENOMEM, -EOVERFLOW, -E2BIG; -EOPNOTSUPP: a combiner that this code
 * does not know; -EPROTO: the library contradicts itself; -EIO: an MPI call failed (error handlers may have run). */
int kr_typemap_from_mpi(MPI_Datatype type, struct kr_typemap **ret_map);
/* The same, but kept at the datatype as an attribute, so that the second call costs a look-up.  For derived types; the
 * reference returned is the caller's, and outlives the datatype. */
int kr_typemap_of_mpi(MPI_Datatype type, struct kr_typemap **ret_map);

#endif
