/* MPI datatypes as typemaps.  Only this part of the typemap code knows MPI; compiled once per MPI library.
 *
 * Envelope and contents tell every combiner of MPI-3.1; with MPI-4's large counts where the library has them.  Lower
 * bound and extent of every level are the library's own (they depend on its alignment rules).  A map whose size is not
 * MPI_Type_size_x's is refused, so that a misread combiner can never move a wrong byte.  Threads: as MPI itself allows.
 */
#ifndef KR_MPIIO_TYPEMAP_MPI_H
#define KR_MPIIO_TYPEMAP_MPI_H

#include <mpi.h>

#include "mpiio/datatype/typemap.h"

/* TYPE (need not be committed) as an owned map.  -ENOMEM, -EOVERFLOW, -E2BIG; -EOPNOTSUPP: an unknown combiner;
 * -EPROTO: the library contradicts itself; -EIO: an MPI call failed (error handlers may have run).  A derived type's
 * map is cached as its attribute, so that the second call costs a look-up; the returned reference outlives the type. */
int kr_typemap_of_mpi(MPI_Datatype type, struct kr_typemap **ret_map);

#endif
