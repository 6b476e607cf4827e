/* The border where -errno becomes an MPI error class. */
#ifndef KR_MPIIO_ERRORS_H
#define KR_MPIIO_ERRORS_H

#include <mpi.h>

/* MPI_SUCCESS for ERR >= 0, else the class of -errno. */
int kr_mpi_class(int err);

#endif
