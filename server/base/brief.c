/* See brief.h. */
#include "server/base/brief.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "common/base/util.h"
#include "common/rpc/turns.h"

/* A job of LONG_NS would be no slower in the pool, where others run beside it.  After one the pool has all jobs for
 * REST times as long.  So a slow disk takes a ninth of the loop thread's time at most. */
enum { LONG_NS = 300000, REST = 8 };

static struct {
	/* The turn guards these. */
	struct kr_turns turns;
	struct kr_list waiting; /* kr_brief.link: until the loop thread has handled its events */
	size_t count;
	uint64_t rests_until_ns; /* the pool has all jobs */
	size_t outside;          /* jobs of threads that have let go of the loop */
	/* The lock guards the rest; it is taken with the turn, or without. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t jobs;    /* so far */
	size_t running; /* the job of this number, in the loop thread; 0: none */
	bool relieved;  /* a job was too long, and the thread has not come back from it */
	bool resting;   /* the spare thread waits for a job */
	bool ended;
} briefs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool has_spare_thread(void)
{
	KR_SCOPED_LOCK(&briefs.lock);

	return !briefs.relieved;
}

/* With the turn. */
static bool takes_jobs(void)
{
	return kr_clock_ns() >= briefs.rests_until_ns && has_spare_thread();
}

static void run_in_pool(uv_work_t *work)
{
	struct kr_brief *brief = KR_CONTAINER_OF(work, struct kr_brief, work);

	brief->run(brief);
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

void kr_brief_start(uv_loop_t *loop, struct kr_brief *brief, bool in_pool, void (*run)(struct kr_brief *),
	void (*done)(struct kr_brief *))
{
	brief->run = run;
	brief->done = done;
	if (in_pool || loop != briefs.turns.loop || briefs.count == KR_BRIEFS_WAITING || !takes_jobs()) {
		give_to_pool(loop, brief);
		return;
	}
	kr_list_append(&briefs.waiting, &brief->link);
	briefs.count++;
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

/* Returns whether the caller is the loop thread still. */
static bool job_ended(size_t number)
{
	KR_SCOPED_LOCK(&briefs.lock);

	if (briefs.running != number) {
		briefs.relieved = false;
		return false;
	}
	briefs.running = 0;
	return true;
}

/* With the turn.  True: the caller still leads, and has the turn. */
static bool do_job(struct kr_brief *brief)
{
	const uint64_t began_ns = kr_clock_ns();
	struct kr_turns *turns = &briefs.turns;
	size_t number = job_begins();
	uint64_t took_ns;
	bool leads;

	if (briefs.outside++ == 0)
		uv_ref((uv_handle_t *)&turns->wake); /* the loop does not end before DONE */
	kr_turns_leave(turns);
	brief->run(brief);
	took_ns = kr_clock_ns() - began_ns;
	leads = job_ended(number);
	kr_turns_take(turns);
	if (took_ns > LONG_NS)
		briefs.rests_until_ns = began_ns + took_ns + REST * took_ns;
	if (--briefs.outside == 0)
		uv_unref((uv_handle_t *)&turns->wake);
	uv_update_time(turns->loop); /* else timers that DONE starts would fire too early */
	brief->done(brief);
	if (leads)
		return true;
	kr_turns_run(turns);
	kr_turns_pass(turns);
	kr_turns_wake(turns); /* the loop may have ended now, or there may be jobs */
	return false;
}

static struct kr_brief *next_job(void)
{
	struct kr_link *link = kr_list_pop(&briefs.waiting);

	if (!link)
		return NULL;
	briefs.count--;
	return KR_LIST_ENTRY(link, struct kr_brief, link);
}

/* With the turn.  Jobs that these jobs start wait until the loop has handled its events again.  False: the other thread
 * leads. */
static bool do_jobs(void)
{
	struct kr_brief *brief;

	for (size_t count = briefs.count; count && (brief = next_job()); count--)
		if (!takes_jobs())
			give_to_pool(briefs.turns.loop, brief);
		else if (!do_job(brief))
			return false;
	return true;
}

/* With the turn.  False: the loop has ended.  True: the other thread leads. */
static bool lead(void)
{
	bool more;

	do {
		more = kr_turns_step(&briefs.turns) || briefs.count;
		if (!do_jobs())
			return true;
		if (kr_turns_wanted(&briefs.turns)) { /* by a thread whose job was long, while the loop is never idle */
			kr_turns_leave(&briefs.turns);
			kr_turns_take(&briefs.turns);
		}
	} while (more || kr_turns_wait(&briefs.turns));
	return false;
}

/* --- the spare thread ------------------------------------------------------------------------- */

/* With the lock, which others get meanwhile. */
static void wait_briefly(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += KR_BRIEF_MS * (long)KR_NS_PER_MS;
	until.tv_sec += until.tv_nsec / (long)KR_NS_PER_S;
	until.tv_nsec %= (long)KR_NS_PER_S;
	while (!briefs.ended && pthread_cond_timedwait(&briefs.changed, &briefs.lock, &until) == 0)
		;
}

/* False: the loop has ended.  True: a job is too long. */
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

/* By turns with the other thread. */
static void lead_and_watch(void)
{
	while (lead())
		if (!watch())
			return;
		else
			kr_turns_take(&briefs.turns);
	end();
}

static void *be_spare(void *context)
{
	(void)context;
	pthread_setname_np(pthread_self(), "kr-spare");
	if (watch()) {
		kr_turns_take(&briefs.turns);
		lead_and_watch();
	}
	return NULL;
}

void kr_brief_serve(uv_loop_t *loop)
{
	pthread_condattr_t monotonic;
	pthread_t spare;
	int err = kr_turns_init(&briefs.turns, loop);

	assert(err == 0);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&briefs.changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	kr_list_init(&briefs.waiting);
	briefs.ended = false;
	briefs.rests_until_ns = 0;
	err = briefs.turns.shared ? -pthread_create(&spare, NULL, be_spare, NULL) : -ENOTSUP;
	briefs.relieved = err != 0; /* for ever */
	kr_turns_take(&briefs.turns);
	lead_and_watch();
	if (!err)
		pthread_join(spare, NULL);
	kr_turns_close(&briefs.turns);
	uv_run(loop, UV_RUN_DEFAULT);
	kr_turns_fini(&briefs.turns);
	briefs.turns.loop = NULL;
	pthread_cond_destroy(&briefs.changed);
}
