/* How the interface's functions are defined: each under its PMPI name, with the types of one MPI library.  The
 * preloaded library finds them by that name.
 *
 * Data calls have counts of type int and, since MPI-4, a twin NAME_c with counts of type MPI_Count: the same sources
 * are compiled for both (api_large.c).
 */
#ifndef KR_MPIIO_API_H
#define KR_MPIIO_API_H

#include <mpi.h>

#include "mpiio/twophase/mpi_library.h"

#ifdef KR_LARGE_COUNTS
typedef MPI_Count kr_count;
#define KR_COUNTED(name) name##_c
#else
typedef int kr_count;
#define KR_COUNTED(name) name
#endif

#define KR_PMPI_NAME(name) PMPI_##name

/* The two places where a data call uses its own name. */
#define KR_PMPI(name) KR_PMPI_OF(KR_COUNTED(name))
#define KR_PMPI_OF(name) KR_PMPI_NAME(name)
#define KR_REAL(name) kr_real()->KR_COUNTED(name)

/* The six kinds of arguments of data calls (call.h). */
#define WRITE(...) \
	(&(struct kr_call){ \
		.writing = true, .buffer = (void *)(uintptr_t)buf, .count = count, .datatype = datatype, __VA_ARGS__})
#define READ(...) (&(struct kr_call){.buffer = buf, .count = count, .datatype = datatype, __VA_ARGS__})
#define AT .offset = offset
#define POINTER .individual = true

#endif
