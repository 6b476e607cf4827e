/* See brief.h. */
#include "server/base/brief.h"

#include <assert.h>
#include <pthread.h>
#include <time.h>

#include "common/base/util.h"
#include "server/base/blocked.h"

/* A job of LONG_NS would be no slower in the pool, where others run beside it.  After one the pool has all jobs for
 * REST times as long.  So a slow disk takes a ninth of the loop thread's time at most. */
enum { LONG_NS = 300000, REST = 8 };

static struct {
	/* Of the loop thread. */
	uv_loop_t *loop;
	struct kr_list waiting; /* kr_brief.link: until the loop thread has handled its events */
	size_t count;
	uv_idle_t busy;  /* active while jobs wait: the loop waits for no event */
	size_t outside;  /* jobs that the spare thread runs, or has finished */
	uv_async_t back; /* it has finished one; keeps the loop alive meanwhile */
	/* The lock guards the rest. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct kr_list finished; /* kr_brief.link: by the spare thread */
	uint64_t rests_until_ns; /* the pool has all jobs */
	size_t jobs;             /* so far */
	size_t running;          /* the job of this number, in the loop thread; 0: none */
	bool relieved;           /* a job was too long, and the thread has not come back from it */
	bool resting;            /* the spare thread waits for a job */
	bool ended;
} briefs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool takes_jobs(void)
{
	KR_SCOPED_LOCK(&briefs.lock);

	return !briefs.relieved && kr_clock_ns() >= briefs.rests_until_ns;
}

static void run_in_pool(uv_work_t *work)
{
	struct kr_brief *brief = KR_CONTAINER_OF(work, struct kr_brief, work);
	struct kr_blocked_job job;

	kr_blocked_begin(&job);
	brief->run(brief);
	kr_blocked_end(&job);
}

static void after_pool(uv_work_t *work, int status)
{
	struct kr_brief *brief = KR_CONTAINER_OF(work, struct kr_brief, work);

	assert(status == 0); /* nothing calls uv_cancel */
	(void)status;
	brief->done(brief);
}

static void give_to_pool(uv_loop_t *loop, struct kr_brief *brief)
{
	int err = uv_queue_work(loop, &brief->work, run_in_pool, after_pool);

	assert(err == 0);
	(void)err;
}

static void be_busy(uv_idle_t *busy)
{
	(void)busy;
}

void kr_brief_start(uv_loop_t *loop, struct kr_brief *brief, bool in_pool, void (*run)(struct kr_brief *),
	void (*done)(struct kr_brief *))
{
	brief->run = run;
	brief->done = done;
	if (in_pool || loop != briefs.loop || briefs.count == KR_BRIEFS_WAITING || !takes_jobs()) {
		give_to_pool(loop, brief);
		return;
	}
	kr_list_append(&briefs.waiting, &brief->link);
	if (briefs.count++ == 0)
		uv_idle_start(&briefs.busy, be_busy);
}

/* --- the loop thread -------------------------------------------------------------------------- */

static size_t job_begins(void)
{
	KR_SCOPED_LOCK(&briefs.lock);

	briefs.running = ++briefs.jobs;
	if (briefs.resting)
		pthread_cond_signal(&briefs.changed);
	return briefs.running;
}

/* Returns whether the caller is the loop thread still.  Else it is the spare thread, and has handed BRIEF over. */
static bool job_ended(struct kr_brief *brief, size_t number, uint64_t took_ns)
{
	KR_SCOPED_LOCK(&briefs.lock);

	if (took_ns > LONG_NS)
		briefs.rests_until_ns = kr_clock_ns() + REST * took_ns;
	if (briefs.running == number) {
		briefs.running = 0;
		return true;
	}
	briefs.relieved = false;
	kr_list_append(&briefs.finished, &brief->link);
	uv_async_send(&briefs.back);
	return false;
}

/* Returns whether the caller is the loop thread still. */
static bool do_job(struct kr_brief *brief)
{
	const uint64_t began_ns = kr_clock_ns();
	size_t number = job_begins();

	brief->run(brief);
	if (!job_ended(brief, number, kr_clock_ns() - began_ns))
		return false;
	uv_update_time(briefs.loop); /* else timers that DONE starts would fire too early */
	brief->done(brief);
	return true;
}

static struct kr_brief *next_job(void)
{
	if (--briefs.count == 0)
		uv_idle_stop(&briefs.busy);
	return KR_LIST_POP(&briefs.waiting, struct kr_brief, link);
}

/* Jobs that these jobs start wait until the loop has handled its events again.  False: the other thread is the loop
 * thread. */
static bool do_jobs(void)
{
	for (size_t count = briefs.count; count; count--) {
		struct kr_brief *brief = next_job();

		if (!takes_jobs())
			give_to_pool(briefs.loop, brief);
		else if (!do_job(brief))
			return false;
	}
	return true;
}

static struct kr_brief *next_finished(void)
{
	KR_SCOPED_LOCK(&briefs.lock);

	return KR_LIST_POP(&briefs.finished, struct kr_brief, link);
}

static void on_back(uv_async_t *back)
{
	struct kr_brief *brief;

	while ((brief = next_finished()) != NULL) {
		if (--briefs.outside == 0)
			uv_unref((uv_handle_t *)back);
		brief->done(brief);
	}
}

/* False: the loop has ended.  True: the other thread is the loop thread. */
static bool lead(void)
{
	bool alive;

	do {
		alive = uv_run(briefs.loop, UV_RUN_ONCE) != 0;
		if (!do_jobs())
			return true;
	} while (alive);
	return false;
}

/* --- the spare thread ------------------------------------------------------------------------- */

/* With the lock, which others get meanwhile. */
static void wait_briefly(void)
{
	struct timespec until = kr_monotonic_after(KR_BRIEF_MS * KR_NS_PER_MS);

	while (!briefs.ended && kr_cond_wait_until(&briefs.changed, &briefs.lock, until))
		continue;
}

/* False: the loop has ended.  True: a job is too long, and the caller is the loop thread from now on. */
static bool watch(void)
{
	size_t seen = 0;
	KR_SCOPED_LOCK(&briefs.lock);

	while (!briefs.ended) {
		briefs.resting = briefs.jobs == seen;
		if (briefs.resting)
			pthread_cond_wait(&briefs.changed, &briefs.lock);
		briefs.resting = false;
		seen = briefs.jobs;
		wait_briefly();
		if (briefs.ended || !briefs.running || briefs.running != seen)
			continue;
		briefs.running = 0;
		briefs.relieved = true;
		return true;
	}
	return false;
}

static void end(void)
{
	KR_SCOPED_LOCK(&briefs.lock);

	briefs.ended = true;
	pthread_cond_signal(&briefs.changed);
}

/* False: the loop has ended. */
static bool take_over(void)
{
	if (!watch())
		return false;
	if (briefs.outside++ == 0)
		uv_ref((uv_handle_t *)&briefs.back);
	return true;
}

static void lead_and_watch(void)
{
	while (lead())
		if (!take_over())
			return;
	end();
}

static void *be_spare(void *context)
{
	(void)context;
	pthread_setname_np(pthread_self(), "kr-spare");
	if (take_over())
		lead_and_watch();
	return NULL;
}

void kr_brief_serve(uv_loop_t *loop)
{
	pthread_t spare;
	int err = uv_async_init(loop, &briefs.back, on_back);

	assert(err == 0);
	uv_unref((uv_handle_t *)&briefs.back);
	uv_idle_init(loop, &briefs.busy);
	pthread_cond_init(&briefs.changed, NULL);
	kr_list_init(&briefs.waiting);
	kr_list_init(&briefs.finished);
	briefs.loop = loop;
	briefs.ended = false;
	briefs.rests_until_ns = 0;
	err = pthread_create(&spare, NULL, be_spare, NULL);
	briefs.relieved = err != 0; /* for ever */
	lead_and_watch();
	if (err == 0)
		pthread_join(spare, NULL);
	uv_close((uv_handle_t *)&briefs.back, NULL);
	uv_close((uv_handle_t *)&briefs.busy, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	briefs.loop = NULL;
	pthread_cond_destroy(&briefs.changed);
}
