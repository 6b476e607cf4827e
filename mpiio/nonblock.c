/* Non-blocking calls: generalized requests.
 *
 * A non-blocking collective call may not wait for other ranks when it starts, and must end when all ranks have started it,
 * whatever they do next.  Where the program has MPI_THREAD_MULTIPLE on all ranks, a thread per file runs these calls one
 * after the other as blocking ones.  Without it no thread may call MPI and nothing of ours runs while the program computes, so
 * there each rank does its own part at once, in exact extents and without an exchange: always right and free of deadlock,
 * but without what two-phase would gain.  Independent non-blocking calls are done at once, too.
 */
#include <stdlib.h>

#include "common/util.h"
#include "mpiio/call.h"
#include "mpiio/collective.h"
#include "mpiio/errors.h"
#include "mpiio/independent.h"

struct operation {
	struct kr_io_job job; /* first: what the worker gets */
	struct kr_mpifile *file;
	struct kr_access access;
	bool own_datatype; /* the program may free its datatype while we still need it */
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

/* I/O that has begun is not taken back. */
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

	PMPI_Grequest_complete(operation->request);
	put(operation);
}

/* An operation with its request; NULL: *RET_CLASS says why.  *RET_CLASS else is what is wrong with the arguments. */
static struct operation *start(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request, int *ret_class)
{
	struct operation *operation = calloc(1, sizeof(*operation));

	if (!operation) {
		*ret_class = MPI_ERR_NO_MEM;
		return NULL;
	}
	operation->file = file;
	operation->refs = 2;
	operation->class = *ret_class = kr_call_access(file, call, &operation->access);
	if (PMPI_Grequest_start(query, release, cancel, operation, &operation->request) != MPI_SUCCESS) {
		operation->refs = 1;
		put(operation);
		*ret_class = MPI_ERR_INTERN;
		return NULL;
	}
	*ret_request = operation->request;
	return operation;
}

static int run_at_once(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request)
{
	int class;
	struct operation *operation = start(file, call, ret_request, &class);

	if (!operation)
		return kr_mpi_return(file->fh, class);
	if (class == MPI_SUCCESS)
		operation->class = kr_independent_alone(file, &operation->access, &operation->done);
	complete(&operation->job);
	return MPI_SUCCESS;
}

int kr_call_start_independent(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request)
{
	return run_at_once(file, call, ret_request);
}

int kr_call_start_collective(struct kr_mpifile *file, const struct kr_call *call, MPI_Request *ret_request)
{
	struct operation *operation;
	int class;

	if (!file->threads)
		return run_at_once(file, call, ret_request);
	operation = start(file, call, ret_request, &class);
	if (!operation)
		return kr_mpi_return(file->fh, class);
	if (class == MPI_SUCCESS && !operation->access.known)
		operation->own_datatype = PMPI_Type_dup(operation->access.datatype, &operation->access.datatype) == MPI_SUCCESS;
	operation->job.run = run_collective;
	operation->job.finished = complete;
	kr_io_submit(&file->worker, &operation->job);
	return MPI_SUCCESS;
}
