/* See kernel_attrs.h.
 *
 * Jobs of kr-notify take grants back.  INVALIDATE is answered when its job and all earlier ones are done: an earlier
 * one may have taken a grant of the same bucket out of the table, and not yet notified the kernel.
 */
#include "fuse/names/kernel_attrs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/fault.h"
#include "common/base/util.h"
#include "common/rpc/attr_cache.h"
#include "fuse/base/lent.h"
#include "fuse/base/loop.h"
#include "fuse/base/notify.h"
#include "fuse/base/shim.h"
#include "fuse/names/kernel_names.h"

enum { AT_ONCE = 32, AGAIN_NS = 200 * 1000, SLEPT_MS = 10 };

struct kr_kernel_attrs {
	_Atomic bool allowed;
	_Atomic uint64_t given, taken, again;
	_Atomic bool acls; /* granted since the last sweep */
	struct kr_task acls_task;
	/* Loop thread. */
	struct kr_list jobs; /* kr_kernel_attrs_job.link, in the order in which they began */
	bool started, stopped;
	uv_timer_t sweep;
	uv_poll_t poll;
	int fd;
	int64_t asleep_ns; /* how long the machine has slept since it booted */
};

struct kr_kernel_attrs_job {
	struct kr_notify_job notify;
	struct kr_link link;
	struct kr_mount *mount;
	struct kr_task done_task;
	uint32_t bucket;
	bool sweeps; /* takes AT_ONCE grants at most, so that no INVALIDATE waits for many */
	bool done, more;
	struct kr_down down; /* type 0: nothing is to be answered */
	struct kr_kernel_attrs_waiter *waiter;
};

static void acls_granted(struct kr_task *task);

struct kr_kernel_attrs *kr_kernel_attrs_new(void)
{
	struct kr_kernel_attrs *attrs = kr_xcalloc(1, sizeof(*attrs));

	kr_list_init(&attrs->jobs);
	attrs->acls_task.fn = acls_granted;
	attrs->fd = -1;
	return attrs;
}

void kr_kernel_attrs_free(struct kr_kernel_attrs *attrs)
{
	free(attrs);
}

void kr_kernel_attrs_allow(struct kr_mount *mount, unsigned minor)
{
	atomic_store(&mount->kernel_attrs->allowed, minor >= KR_KERNEL_ATTRS_MINOR && !KR_FAULT("attrs.old_kernel"));
}

/* False also before the kernel's first request: there are no grants, and maybe no inodes and no notifier yet. */
static bool may_grant(const struct kr_mount *mount)
{
	return atomic_load(&mount->kernel_attrs->allowed);
}

static bool enter(struct kr_mount *mount, uint64_t number, const struct kr_fid *fid, uint64_t ms)
{
	if (!may_grant(mount))
		return false;
	kr_inode_grant(mount->inodes, number, kr_attr_cache_bucket(fid), kr_clock_ns() + ms * KR_NS_PER_MS);
	atomic_fetch_add_explicit(&mount->kernel_attrs->given, 1, memory_order_relaxed);
	return true;
}

bool kr_kernel_attrs_enter(struct kr_mount *mount, uint64_t number, const struct kr_fid *fid)
{
	return enter(mount, number, fid, KR_KERNEL_ATTRS_GRANT_MS);
}

/* The grant outlives the sweep, also a late one. */
bool kr_kernel_attrs_enter_acl(struct kr_mount *mount, uint64_t number, const struct kr_fid *fid)
{
	if (!enter(mount, number, fid, 3 * KR_KERNEL_ACLS_MS))
		return false;
	if (!atomic_exchange(&mount->kernel_attrs->acls, true))
		kr_loop_post(mount->kr_loop, &mount->kernel_attrs->acls_task);
	return true;
}

/* --- taking grants back ----------------------------------------------------------------------- */

static int notify(struct kr_mount *mount, uint64_t number)
{
	if (KR_FAULT("attrs.keep"))
		return 0;
	atomic_fetch_add_explicit(&mount->kernel_attrs->taken, 1, memory_order_relaxed);
	return kr_notify_drop(mount->fuse, number, &KR_NOTIFY_ATTRIBUTES);
}

/* For an inode that an unanswered request of the kernel holds.  The kernel has it before the answer. */
static void notify_held(struct kr_mount *mount, uint64_t number)
{
	kr_lent_in_order(true);
	(void)notify(mount, number);
	kr_lent_in_order(false);
}

void kr_kernel_attrs_keep_no_acl(struct kr_mount *mount, uint64_t number)
{
	notify_held(mount, number);
}

/* kr-notify.  Returns when the kernel holds no attributes of the grant's inode, and will get none.  After the unmount
 * the kernel knows no inode, and sends no FORGET. */
static void end_grant(struct kr_mount *mount, const struct kr_inode_grant *grant)
{
	while (!kr_inode_grant_ended(mount->inodes, grant, notify(mount, grant->number), kr_clock_ns()) &&
		!fuse_session_exited(mount->fuse)) {
		atomic_fetch_add_explicit(&mount->kernel_attrs->again, 1, memory_order_relaxed);
		kr_inodes_await_forget(mount->inodes, AGAIN_NS);
	}
}

static void take_back(struct kr_notify_job *notify_job, int err)
{
	struct kr_kernel_attrs_job *job = KR_CONTAINER_OF(notify_job, struct kr_kernel_attrs_job, notify);
	struct kr_mount *mount = job->mount;
	struct kr_inode_grant grants[AT_ONCE];
	size_t count;

	(void)err;
	do {
		count = kr_inodes_take_grants(mount->inodes, job->bucket, kr_clock_ns(), grants, AT_ONCE);
		for (size_t i = 0; i < count; i++)
			end_grant(mount, &grants[i]);
		job->more = count == AT_ONCE;
	} while (job->more && !job->sweeps);
	kr_loop_post(mount->kr_loop, &job->done_task);
}

static void answer(struct kr_mount *mount, uint32_t bucket, const struct kr_down *down)
{
	if (down->type && !mount->kernel_attrs->stopped)
		kr_kernel_names_answer(mount, bucket, down);
}

static void sweep_some(struct kr_mount *mount);

static void end_jobs(struct kr_kernel_attrs *attrs)
{
	while (!kr_list_empty(&attrs->jobs)) {
		struct kr_kernel_attrs_job *job =
			KR_LIST_ENTRY(attrs->jobs.head.next, struct kr_kernel_attrs_job, link);

		if (!job->done)
			return;
		kr_list_remove(&job->link);
		answer(job->mount, job->bucket, &job->down);
		if (job->waiter)
			job->waiter->fn(job->waiter);
		if (job->sweeps && job->more)
			sweep_some(job->mount);
		free(job);
	}
}

static void job_done(struct kr_task *task)
{
	struct kr_kernel_attrs_job *job = KR_CONTAINER_OF(task, struct kr_kernel_attrs_job, done_task);

	job->done = true;
	end_jobs(job->mount->kernel_attrs);
}

static struct kr_kernel_attrs_job *add_job(struct kr_mount *mount, uint32_t bucket)
{
	struct kr_kernel_attrs_job *job = kr_xcalloc(1, sizeof(*job));

	job->mount = mount;
	job->bucket = bucket;
	job->notify.done = take_back;
	job->done_task.fn = job_done;
	kr_list_append(&mount->kernel_attrs->jobs, &job->link);
	return job;
}

void kr_kernel_attrs_invalidate(struct kr_mount *mount, uint32_t bucket, const struct kr_down *down)
{
	struct kr_kernel_attrs *attrs = mount->kernel_attrs;
	bool granted = may_grant(mount) && kr_inodes_granted(mount->inodes, bucket, kr_clock_ns());
	struct kr_kernel_attrs_job *job;

	if (!granted && (!down || kr_list_empty(&attrs->jobs))) {
		if (down)
			kr_kernel_names_answer(mount, bucket, down);
		return;
	}
	job = add_job(mount, bucket);
	if (down)
		job->down = *down;
	if (granted)
		kr_notify(mount->attr_notifier, &job->notify);
	else
		job->done = true;
}

void kr_kernel_attrs_drop_held(struct kr_mount *mount, const struct kr_fid *fid)
{
	uint64_t number = may_grant(mount) ? kr_inode_take_grant_of(mount->inodes, fid, kr_clock_ns()) : 0;

	if (number)
		notify_held(mount, number);
}

static void dropped(struct kr_notify_job *job, int err)
{
	(void)err;
	free(job);
}

void kr_kernel_attrs_drop_later(struct kr_mount *mount, const struct kr_fid *fid)
{
	uint64_t number = may_grant(mount) ? kr_inode_take_grant_of(mount->inodes, fid, kr_clock_ns()) : 0;
	struct kr_notify_job *job;

	if (!number)
		return;
	job = kr_xcalloc(1, sizeof(*job));
	job->nodeid = number;
	job->count = 1;
	job->ranges[0] = KR_NOTIFY_ATTRIBUTES;
	job->done = dropped;
	kr_notify(mount->attr_notifier, job);
}

void kr_kernel_attrs_settle(struct kr_mount *mount, struct kr_kernel_attrs_waiter *waiter)
{
	struct kr_kernel_attrs_job *job;

	if (kr_list_empty(&mount->kernel_attrs->jobs)) {
		waiter->fn(waiter);
		return;
	}
	job = add_job(mount, 0);
	job->waiter = waiter;
	job->done = true;
}

/* --- ACLs, which have no timeout -------------------------------------------------------------- */

static void sweep_some(struct kr_mount *mount)
{
	struct kr_kernel_attrs_job *job;

	if (mount->kernel_attrs->stopped)
		return;
	job = add_job(mount, KR_ATTR_CACHE_ALL);
	job->sweeps = true;
	kr_notify(mount->attr_notifier, &job->notify);
}

/* Takes back all ACLs that were granted before; the next sweep takes back those that are granted from now on. */
static void sweep(uv_timer_t *timer)
{
	struct kr_mount *mount = timer->data;

	atomic_store(&mount->kernel_attrs->acls, false);
	sweep_some(mount);
}

static void acls_granted(struct kr_task *task)
{
	struct kr_kernel_attrs *attrs = KR_CONTAINER_OF(task, struct kr_kernel_attrs, acls_task);

	if (attrs->sweep.data && !attrs->stopped)
		uv_timer_start(&attrs->sweep, sweep, KR_KERNEL_ACLS_MS, 0);
}

/* --- the machine's sleep ---------------------------------------------------------------------- */

static int64_t asleep_ns(void)
{
	struct timespec boot, awake;

	clock_gettime(CLOCK_MONOTONIC, &awake);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	return (int64_t)(boot.tv_sec - awake.tv_sec) * (int64_t)KR_NS_PER_S + boot.tv_nsec - awake.tv_nsec;
}

/* A timer that only fires when CLOCK_REALTIME jumps: also when the machine wakes up. */
static void arm(const struct kr_kernel_attrs *attrs)
{
	enum { NEVER = INT32_MAX };
	const struct itimerspec never = {.it_value.tv_sec = NEVER};

	timerfd_settime(attrs->fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL);
}

static void on_jump(uv_poll_t *poll, int status, int events)
{
	struct kr_mount *mount = poll->data;
	struct kr_kernel_attrs *attrs = mount->kernel_attrs;
	int64_t asleep = asleep_ns();
	uint64_t count;

	(void)status, (void)events;
	if (read(attrs->fd, &count, sizeof(count)) < 0 && errno != ECANCELED && errno != EAGAIN)
		return;
	arm(attrs);
	if (asleep - attrs->asleep_ns > SLEPT_MS * (int64_t)KR_NS_PER_MS)
		kr_kernel_attrs_invalidate(mount, KR_ATTR_CACHE_ALL, NULL);
	attrs->asleep_ns = asleep;
}

void kr_kernel_attrs_start(struct kr_mount *mount)
{
	struct kr_kernel_attrs *attrs = mount->kernel_attrs;

	uv_timer_init(mount->loop, &attrs->sweep);
	attrs->sweep.data = mount;
	attrs->asleep_ns = asleep_ns();
	attrs->fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (attrs->fd < 0)
		return; /* the fence's timer remains */
	uv_poll_init(mount->loop, &attrs->poll, attrs->fd);
	attrs->poll.data = mount;
	uv_poll_start(&attrs->poll, UV_READABLE, on_jump);
	arm(attrs);
	attrs->started = true;
}

static void on_closed(uv_handle_t *handle)
{
	struct kr_mount *mount = handle->data;

	close(mount->kernel_attrs->fd);
}

void kr_kernel_attrs_stop(struct kr_mount *mount)
{
	struct kr_kernel_attrs *attrs = mount->kernel_attrs;

	if (attrs->sweep.data && !attrs->stopped)
		uv_close((uv_handle_t *)&attrs->sweep, NULL);
	if (attrs->started && !attrs->stopped)
		uv_close((uv_handle_t *)&attrs->poll, on_closed);
	attrs->stopped = true;
}

json_t *kr_kernel_attrs_status(const struct kr_mount *mount)
{
	const struct kr_kernel_attrs *attrs = mount->kernel_attrs;

	return json_pack("{s:b,s:I,s:I,s:I}", "allowed", (int)atomic_load(&attrs->allowed), "given",
		(json_int_t)atomic_load(&attrs->given), "taken_back", (json_int_t)atomic_load(&attrs->taken), "again",
		(json_int_t)atomic_load(&attrs->again));
}
