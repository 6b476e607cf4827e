/* The MPI library: its own PMPI_File_*, for all calls that the layer does not handle; its error classes; the tags of
 * the layer's messages. */
#ifndef KR_MPIIO_MPI_LIBRARY_H
#define KR_MPIIO_MPI_LIBRARY_H

#include <mpi.h>

#include "mpiio/twophase/calls.h"

#if MPI_VERSION >= 4
#define KR_REAL_LIST(X) KR_CALLS(X) KR_LARGE_CALLS(X)
#else
#define KR_REAL_LIST(X) KR_CALLS(X)
#endif

struct kr_real {
#define KR_REAL_FIELD(name) __typeof__(PMPI_##name) *name;
	KR_REAL_LIST(KR_REAL_FIELD)
#undef KR_REAL_FIELD
};

/* Fills the table.  The preloaded library calls it before all else; FIND returns the MPI library's function of that
 * name, or NULL.  Returns NULL, or the name of a function that the MPI library lacks: then nothing else of the layer
 * may be called. */
const char *kr_mpi_library_start(void *(*find)(const char *name));

/* The table.  Any thread. */
const struct kr_real *kr_real(void);

/* MPI_SUCCESS for ERR >= 0, else the class of -errno. */
int kr_mpi_class(int err);

/* Tags, on communicators of the layer.  Each pair of ranks keeps its messages of one tag in order. */
enum kr_tag { KR_TAG_VIEW = 1, KR_TAG_WRITE, KR_TAG_READ, KR_TAG_CLOCK, KR_TAG_NONE };

#endif
