/* See notify.h. */
#include "fuse/base/notify.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/table.h"
#include "fuse/base/shim.h"

enum { THREADS_MAX = 16, BUSY_MAX = 10, COUNTS = 1024 };

struct kr_notifier {
	struct fuse_session *fuse;
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct kr_list queue; /* kr_notify_job.link */
	bool stop;
	unsigned queued, idle, threads;
	pthread_t thread[THREADS_MAX];
};

static atomic_uint counts[COUNTS]; /* by the node number's hash */

static atomic_uint *count_of(uint64_t nodeid)
{
	return &counts[kr_hash_bytes(&nodeid, sizeof(nodeid)) % COUNTS];
}

uint32_t kr_notify_count(uint64_t nodeid)
{
	return atomic_load(count_of(nodeid));
}

/* A device that is just reading into a page may dirty it again after it was unmapped and written.  The kernel then
 * keeps the page: try again. */
int kr_notify_drop(struct fuse_session *fuse, uint64_t nodeid, const struct kr_range *range)
{
	int err = 0;

	atomic_fetch_add(count_of(nodeid), 1);
	for (unsigned tries = 0; tries < BUSY_MAX; tries++) {
		err = fuse_lowlevel_notify_inval_inode(fuse, nodeid, (off_t)range->offset, (off_t)range->length);
		if (err != -EBUSY)
			break;
	}
	return err;
}

static int tell(struct fuse_session *fuse, const struct kr_notify_job *job)
{
	int first = 0;

	(void)KR_FAULT("notify.tell");
	for (uint32_t i = 0; i < job->count; i++) {
		int err = kr_notify_drop(fuse, job->nodeid, &job->ranges[i]);

		if (err && err != -ENOENT && !first)
			first = err;
	}
	return first;
}

static struct kr_notify_job *take(struct kr_notifier *notifier)
{
	struct kr_notify_job *job;

	KR_SCOPED_LOCK(&notifier->lock);
	while (!(job = KR_LIST_POP(&notifier->queue, struct kr_notify_job, link)) && !notifier->stop) {
		notifier->idle++;
		pthread_cond_wait(&notifier->work, &notifier->lock);
		notifier->idle--;
	}
	if (job)
		notifier->queued--;
	return job;
}

static void *run(void *argument)
{
	struct kr_notifier *notifier = argument;
	struct kr_notify_job *job;

	pthread_setname_np(pthread_self(), "kr-notify");
	while ((job = take(notifier)))
		job->done(job, job->nodeid ? tell(notifier->fuse, job) : 0);
	return NULL;
}

/* [lock] held, unless no other thread knows the notifier yet. */
static int add_thread(struct kr_notifier *notifier)
{
	int err = pthread_create(&notifier->thread[notifier->threads], NULL, run, notifier);

	if (!err)
		notifier->threads++;
	return -err;
}

int kr_notifier_new(struct fuse_session *fuse, struct kr_notifier **ret_notifier)
{
	struct kr_notifier *notifier = kr_xcalloc(1, sizeof(*notifier));
	int err;

	notifier->fuse = fuse;
	pthread_mutex_init(&notifier->lock, NULL);
	pthread_cond_init(&notifier->work, NULL);
	kr_list_init(&notifier->queue);
	err = add_thread(notifier);
	if (err) {
		kr_notifier_free(notifier);
		return kr_fail_errno(err, "cannot start the notification thread");
	}
	*ret_notifier = notifier;
	return 0;
}

void kr_notifier_free(struct kr_notifier *notifier)
{
	if (!notifier)
		return;
	pthread_mutex_lock(&notifier->lock);
	notifier->stop = true;
	pthread_cond_broadcast(&notifier->work);
	pthread_mutex_unlock(&notifier->lock);
	for (unsigned i = 0; i < notifier->threads; i++)
		pthread_join(notifier->thread[i], NULL);
	pthread_cond_destroy(&notifier->work);
	pthread_mutex_destroy(&notifier->lock);
	free(notifier);
}

void kr_notify(struct kr_notifier *notifier, struct kr_notify_job *job)
{
	KR_SCOPED_LOCK(&notifier->lock);
	kr_list_append(&notifier->queue, &job->link);
	if (++notifier->queued <= notifier->idle || notifier->threads == THREADS_MAX || add_thread(notifier) != 0)
		pthread_cond_signal(&notifier->work);
}
