/* See io_thread.h. */
#include "mpiio/twophase/io_thread.h"

#include <signal.h>
#include <time.h>

void kr_io_thread_init(struct kr_io_thread *io, const char *name)
{
	*io = (struct kr_io_thread){.name = name};
	pthread_mutex_init(&io->lock, NULL);
	pthread_cond_init(&io->submitted, NULL);
	pthread_cond_init(&io->finished, NULL);
	kr_list_init(&io->queue);
}

static void run_job(struct kr_io_job *job)
{
	job->begin_ns = kr_clock_ns();
	job->result = job->run(job);
	job->end_ns = kr_clock_ns();
}

static void finish(struct kr_io_thread *io, struct kr_io_job *job)
{
	void (*finished)(struct kr_io_job *) = job->finished;

	if (finished)
		finished(job);
	pthread_mutex_lock(&io->lock);
	if (!finished)
		job->done = true;
	io->pending--;
	pthread_cond_broadcast(&io->finished);
	pthread_mutex_unlock(&io->lock);
}

static void *thread_main(void *argument)
{
	struct kr_io_thread *io = argument;

	pthread_mutex_lock(&io->lock);
	for (;;) {
		struct kr_io_job *job = KR_LIST_POP(&io->queue, struct kr_io_job, link);

		if (job) {
			pthread_mutex_unlock(&io->lock);
			run_job(job);
			finish(io, job);
			pthread_mutex_lock(&io->lock);
		} else if (io->stopping) {
			break;
		} else {
			pthread_cond_wait(&io->submitted, &io->lock);
		}
	}
	pthread_mutex_unlock(&io->lock);
	return NULL;
}

/* Starts the thread with all signals blocked: they are for the program's own threads. */
static bool start(struct kr_io_thread *io)
{
	sigset_t all, before;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&io->thread, NULL, thread_main, io) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (started)
		pthread_setname_np(io->thread, io->name);
	return started;
}

void kr_io_thread_fini(struct kr_io_thread *io)
{
	pthread_mutex_lock(&io->lock);
	io->stopping = true;
	pthread_cond_signal(&io->submitted);
	pthread_mutex_unlock(&io->lock);
	if (io->running)
		pthread_join(io->thread, NULL);
	pthread_mutex_destroy(&io->lock);
	pthread_cond_destroy(&io->submitted);
	pthread_cond_destroy(&io->finished);
}

void kr_io_submit(struct kr_io_thread *io, struct kr_io_job *job)
{
	bool running;

	pthread_mutex_lock(&io->lock);
	job->done = false;
	io->pending++;
	if (!io->running)
		io->running = start(io);
	running = io->running;
	if (running) {
		kr_list_append(&io->queue, &job->link);
		pthread_cond_signal(&io->submitted);
	}
	pthread_mutex_unlock(&io->lock);
	if (!running) {
		run_job(job);
		finish(io, job);
	}
}

bool kr_io_wait(struct kr_io_thread *io, struct kr_io_job *job, uint64_t timeout_ns)
{
	const struct timespec end = kr_monotonic_after(timeout_ns);

	KR_SCOPED_LOCK(&io->lock);
	while (!job->done && kr_cond_wait_until(&io->finished, &io->lock, end))
		continue;
	return job->done;
}

void kr_io_drain(struct kr_io_thread *io)
{
	KR_SCOPED_LOCK(&io->lock);
	while (io->pending > 0)
		pthread_cond_wait(&io->finished, &io->lock);
}
