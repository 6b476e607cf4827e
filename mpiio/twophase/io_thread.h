/* A thread that runs jobs in the order of submission, one at a time.
 *
 * A file has two.  One does the aggregator's file I/O while the caller exchanges the next round.  Its jobs make no MPI
 * call, so it works at every thread level; a call has at most as many jobs as slots.  The other runs non-blocking
 * collectives where MPI_THREAD_MULTIPLE is provided; as many as the program has outstanding.
 */
#ifndef KR_MPIIO_IO_THREAD_H
#define KR_MPIIO_IO_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/list.h"

/* Owned by the submitter; must live until it is done.  If `finished` is set it must live until that call; then no
 * thread may wait for the job, and the I/O thread does not touch it afterwards. */
struct kr_io_job {
	int (*run)(struct kr_io_job *job); /* 0 or -errno; in the I/O thread */
	void (*finished)(struct kr_io_job *job);
	struct kr_link link;
	bool done; /* guarded by the thread's lock */
	int result;
	uint64_t begin_ns, end_ns; /* of run, for the trace */
};

struct kr_io_thread {
	pthread_mutex_t lock;
	pthread_cond_t submitted, finished;
	pthread_t thread;
	struct kr_list queue;
	const char *name;
	bool running, stopping;
	size_t pending; /* jobs queued or running */
};

/* NAME is the thread's, borrowed for ever. */
void kr_io_thread_init(struct kr_io_thread *io, const char *name);
/* Runs the queued jobs, then ends the thread. */
void kr_io_thread_fini(struct kr_io_thread *io);

/* Queues JOB; the first one starts the thread.  If the system has no thread the job runs here, before this returns. */
void kr_io_submit(struct kr_io_thread *io, struct kr_io_job *job);
/* Waits until JOB is done, at most TIMEOUT_NS.  Whether it is done; then its result is valid. */
bool kr_io_wait(struct kr_io_thread *io, struct kr_io_job *job, uint64_t timeout_ns);
/* Waits until no job is queued or running. */
void kr_io_drain(struct kr_io_thread *io);

#endif
