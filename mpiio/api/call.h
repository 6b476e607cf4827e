/* What the data calls of the interface have in common: arguments to an access, the individual pointer, the status. */
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

/* The access that CALL means, with the file's view and pointer of now; moves the pointer.  An MPI error class (then the
 * pointer has not moved).  RET_ACCESS is to be finished in any case. */
int kr_call_access(struct kr_mpifile *file, const struct kr_call *call, struct kr_access *ret_access);
/* STATUS (may be MPI_STATUS_IGNORE) says that BYTES were done. */
void kr_call_status(MPI_Status *status, uint64_t bytes);

/* What a function of the interface returns: calls FH's error handler when CLASS is not MPI_SUCCESS.  Returns CLASS,
 * unless the handler does not return. */
int kr_mpi_return(MPI_File fh, int class);

/* Blocking calls: an MPI error class, and the file's error handler has been told. */
int kr_call_independent(struct kr_mpifile *file, const struct kr_call *call, MPI_Status *status);
int kr_call_collective(struct kr_mpifile *file, const struct kr_call *call, MPI_Status *status);

/* Non-blocking calls (nonblock.c): the same, with a request. */
int kr_call_start_independent(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request);
int kr_call_start_collective(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request);

/* Split collectives: the work is done when they begin, as the standard allows; the end gives the status. */
int kr_call_split_begin(struct kr_mpifile *file, const struct kr_call *call);
int kr_call_split_end(struct kr_mpifile *file, bool writing, MPI_Status *status);

#endif
