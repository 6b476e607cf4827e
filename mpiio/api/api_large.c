/* The data calls with counts of type MPI_Count, where the MPI library has them.  They must not bypass the layer, which
 * has the file's pointer and the order of its writes. */
#include <mpi.h>

#if MPI_VERSION >= 4
#define KR_LARGE_COUNTS
#include "mpiio/api/api_data.c"
#endif
