/* How the interface's functions are defined: each under its PMPI name, which Fortran's wrappers and other tools call, with
 * the MPI name as an alias. */
#ifndef KR_MPIIO_API_H
#define KR_MPIIO_API_H

#include <mpi.h>

#include "mpiio/real.h"

#define KR_ALIAS(name) extern __typeof__(PMPI_##name) MPI_##name __attribute__((alias("PMPI_" #name)))

#endif
