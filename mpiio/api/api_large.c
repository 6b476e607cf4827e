/* The data calls with counts of type MPI_Count, where the MPI library has them.  A file of ours must not be reached
 * past us: its pointer is ours, and so is the order of what was written. */
#include <mpi.h>

#if MPI_VERSION >= 4
#define KR_LARGE_COUNTS
#include "mpiio/api/api_data.c"
#include "mpiio/api/api_nonblock.c"
#include "mpiio/api/api_shared.c"
#endif
