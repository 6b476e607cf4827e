/* Non-blocking calls: generalized requests.
 *
 * A non-blocking collective call must not wait for other ranks when it starts, and must end when all ranks have started
 * it, whatever they do next.  Where the program has MPI_THREAD_MULTIPLE on all ranks, a thread per file runs these
 * calls one after the other as blocking ones.
 * Without it no thread may call MPI, and no code of the layer runs while the program computes.  So each rank does its
 * own part at once, in exact extents and without an exchange. That is always right and free of deadlock, but has no
 * gain from two-phase I/O.  Independent non-blocking calls are done at once, too.
 *
 * MPI_Wait and its kin report errors after the call has returned, through the MPI library's error handler for
 * generalized requests (MPI_COMM_WORLD's).  MPICH's MPI_Wait turns every class into MPI_ERR_OTHER.
 */
#include <stdlib.h>

#include "mpiio/api/call.h"
#include "mpiio/twophase/collective.h"
#include "mpiio/twophase/independent.h"

struct operation {
	struct kr_io_job job; /* first: the worker gets a pointer to it */
	struct kr_mpifile *file;
	struct kr_access access;
	bool own_datatype; /* a copy, as the program may free its own during the operation */
	MPI_Request request;
	int class;
	uint64_t done;
	int refs; /* atomic: the request's, and the worker's */
};

static void put(struct operation *operation)
{
	if (__atomic_sub_fetch(&operation->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	if (operation->own_datatype)
		PMPI_Type_free(&operation->access.datatype);
	kr_access_fini(&operation->access);
	free(operation);
}

static int query(void *extra, MPI_Status *status)
{
	const struct operation *operation = extra;

	kr_call_status(status, operation->done);
	status->MPI_SOURCE = MPI_UNDEFINED;
	status->MPI_TAG = MPI_UNDEFINED;
	return operation->class;
}

static int release(void *extra)
{
	put(extra);
	return MPI_SUCCESS;
}

/* I/O that has begun is not canceled. */
static int cancel(void *extra, int complete)
{
	(void)extra, (void)complete;
	return MPI_SUCCESS;
}

/* In the worker. */
static int run_collective(struct kr_io_job *job)
{
	struct operation *operation = (struct operation *)job;

	operation->class = kr_collective_run(operation->file, &operation->access, operation->class, &operation->done);
	return 0;
}

static void complete(struct kr_io_job *job)
{
	struct operation *operation = (struct operation *)job;

	if (operation->request != MPI_REQUEST_NULL)
		PMPI_Grequest_complete(operation->request);
	put(operation);
}

static struct operation *new_operation(struct kr_mpifile *file, const struct kr_call *call)
{
	struct operation *operation = calloc(1, sizeof(*operation));

	if (!operation)
		return NULL;
	operation->file = file;
	operation->refs = 1;
	operation->request = MPI_REQUEST_NULL;
	operation->class = kr_call_access(file, call, &operation->access);
	return operation;
}

/* Gives the operation a request, which holds a reference. */
static int make_request(struct operation *operation, MPI_Request *ret_request)
{
	if (PMPI_Grequest_start(query, release, cancel, operation, &operation->request) != MPI_SUCCESS) {
		operation->request = MPI_REQUEST_NULL;
		return MPI_ERR_INTERN;
	}
	operation->refs++;
	*ret_request = operation->request;
	return MPI_SUCCESS;
}

/* Errors are known before the call returns: the call reports them itself, without a request. */
int kr_call_start_independent(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request)
{
	struct operation *operation = new_operation(file, call);
	int class = operation ? operation->class : MPI_ERR_NO_MEM;

	if (class == MPI_SUCCESS)
		class = kr_independent_alone(file, &operation->access, &operation->done);
	if (class == MPI_SUCCESS)
		class = make_request(operation, ret_request);
	if (operation)
		complete(&operation->job);
	return kr_mpi_return(file->fh, class);
}

/* A rank with wrong arguments reports that at once, and takes part so that the others learn of it. */
static int run_in_worker(struct operation *operation, MPI_Request *ret_request)
{
	struct kr_mpifile *file = operation->file;
	int class = operation->class;

	if (class == MPI_SUCCESS)
		class = operation->class = make_request(operation, ret_request);
	if (class == MPI_SUCCESS && !operation->access.known)
		operation->own_datatype =
			PMPI_Type_dup(operation->access.datatype, &operation->access.datatype) == MPI_SUCCESS;
	operation->job.run = run_collective;
	operation->job.finished = complete;
	kr_io_submit(&file->worker, &operation->job);
	return kr_mpi_return(file->fh, class);
}

int kr_call_start_collective(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request)
{
	struct operation *operation;

	if (!file->threads)
		return kr_call_start_independent(file, call, ret_request);
	operation = new_operation(file, call);
	return operation ? run_in_worker(operation, ret_request) : kr_mpi_return(file->fh, MPI_ERR_NO_MEM);
}
