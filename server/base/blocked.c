/* See blocked.h. */
#include "server/base/blocked.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "common/base/process.h"
#include "common/base/util.h"

enum { BLOCKED_NS = 1000000 /* shorter waits are the scheduler's, or a lock's */ };

static struct {
	_Atomic uint64_t until_ns; /* jobs that begin before are watched */
	_Atomic uint64_t watch;    /* how many times the watch has begun */
	pthread_mutex_t lock;
	uint64_t ns, last_ns; /* all of it so far; when the last job ended that had blocked */
} blocked = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool is_unawaited;

static uint64_t processor_ns(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * KR_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* How long this thread has waited for a processor since its last job of this watch that blocked, or its first one. */
static uint64_t waited_ns(bool begins)
{
	static _Thread_local uint64_t watch, before_ns;
	const uint64_t current = atomic_load(&blocked.watch);
	uint64_t now_ns, since_ns;

	if (begins && watch == current)
		return 0;
	now_ns = kr_runnable_ns("/proc/thread-self/schedstat");
	since_ns = now_ns - before_ns;
	watch = current;
	before_ns = now_ns;
	return since_ns;
}

void kr_blocked_begin(struct kr_blocked_job *job)
{
	job->began_ns = kr_clock_ns();
	job->watched = job->began_ns < atomic_load(&blocked.until_ns);
	if (!job->watched)
		return;
	is_unawaited = false;
	waited_ns(true);
	job->ran_ns = processor_ns();
}

void kr_blocked_end(const struct kr_blocked_job *job)
{
	uint64_t now_ns, off_ns, waited;

	if (!job->watched || is_unawaited)
		return;
	now_ns = kr_clock_ns();
	off_ns = now_ns - job->began_ns - (processor_ns() - job->ran_ns);
	if ((int64_t)off_ns <= BLOCKED_NS)
		return;
	waited = waited_ns(false);
	KR_SCOPED_LOCK(&blocked.lock);
	if (off_ns > waited)
		blocked.ns += KR_MIN(off_ns - waited, now_ns - KR_MIN(blocked.last_ns, now_ns));
	blocked.last_ns = KR_MAX(blocked.last_ns, now_ns);
}

void kr_blocked_unawaited(void)
{
	is_unawaited = true;
}

uint64_t kr_blocked_ns(void)
{
	const uint64_t now_ns = kr_clock_ns();
	KR_SCOPED_LOCK(&blocked.lock);

	if (now_ns >= atomic_load(&blocked.until_ns))
		atomic_fetch_add(&blocked.watch, 1);
	atomic_store(&blocked.until_ns, now_ns + KR_BLOCKED_WATCH_S * KR_NS_PER_S);
	return blocked.ns;
}
