/* MPI_Info to hints and back. */
#ifndef KR_MPIIO_HINTS_MPI_H
#define KR_MPIIO_HINTS_MPI_H

#include <mpi.h>
#include <stdbool.h>

#include "mpiio/schedule/hints.h"

/* Takes every usable hint of INFO (MPI_INFO_NULL: none).  Whether there was one. */
bool kr_info_read(MPI_Info info, struct kr_hints *hints);
/* Sets all hints in the object INFO. */
void kr_info_write(const struct kr_hints *hints, MPI_Info info);

#endif
