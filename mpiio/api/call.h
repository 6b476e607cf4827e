/* The common part of the interface's data calls: arguments to an access, the individual pointer, the status. */
#ifndef KR_MPIIO_CALL_H
#define KR_MPIIO_CALL_H

#include "mpiio/twophase/access.h"
#include "mpiio/twophase/file.h"

/* The arguments of a data call. */
struct kr_call {
	bool writing;
	bool individual; /* at the individual pointer; else at OFFSET */
	MPI_Offset offset;
	void *buffer;
	MPI_Count count;
	MPI_Datatype datatype;
};

/* The access for CALL, with the file's present view and pointer; moves the pointer.  An MPI error class (then the
 * pointer has not moved).  The caller finishes RET_ACCESS in any case. */
int kr_call_access(struct kr_mpifile *file, const struct kr_call *call, struct kr_access *ret_access);
/* Sets STATUS (may be MPI_STATUS_IGNORE) to BYTES done. */
void kr_call_status(MPI_Status *status, uint64_t bytes);

/* Calls FH's error handler when CLASS is not MPI_SUCCESS, and returns CLASS, unless the handler does not return. */
int kr_mpi_return(MPI_File fh, int class);

/* Blocking calls: an MPI error class, after a call of the file's error handler. */
int kr_call_independent(struct kr_mpifile *file, const struct kr_call *call, MPI_Status *status);
int kr_call_collective(struct kr_mpifile *file, const struct kr_call *call, MPI_Status *status);

/* Non-blocking calls (nonblock.c): the same, with a request. */
int kr_call_start_independent(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request);
int kr_call_start_collective(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request);

/* Split collectives: the begin does the work, as the standard allows; the end gives the status. */
int kr_call_split_begin(struct kr_mpifile *file, const struct kr_call *call);
int kr_call_split_end(struct kr_mpifile *file, bool writing, MPI_Status *status);

#endif
