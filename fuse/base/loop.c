/* See loop.h.  One lock guards the queue of posted tasks, and a uv_async wakes the loop.  After each wait for events the
 * loop takes the tasks one by one, at most TURN of them, so that sockets and timers get their share.
 * Only the first post to an empty queue wakes the loop, and a turn that leaves tasks behind wakes it again.  What the
 * callbacks of events and the tasks themselves post needs no waking: its turn comes before the next wait.
 */
#include "fuse/base/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/util.h"

enum { TURN = 128 };

struct kr_loop {
	uv_loop_t uv;
	uv_async_t async;
	uv_prepare_t before_wait;
	uv_check_t after_wait;
	bool tasks_follow; /* loop thread: before it waits again, it takes tasks */
	pthread_t thread;
	pthread_mutex_t lock; /* guards the next three and every task's `queued` */
	struct kr_list tasks;
	size_t count;
	bool stop;
};

static struct kr_task *take_task(struct kr_loop *loop)
{
	KR_SCOPED_LOCK(&loop->lock);
	struct kr_link *link = kr_list_pop(&loop->tasks);

	if (!link)
		return NULL;
	struct kr_task *task = KR_LIST_ENTRY(link, struct kr_task, link);
	task->queued = false;
	loop->count--;
	return task;
}

static void close_handles(struct kr_loop *loop)
{
	uv_close((uv_handle_t *)&loop->async, NULL);
	uv_close((uv_handle_t *)&loop->before_wait, NULL);
	uv_close((uv_handle_t *)&loop->after_wait, NULL);
}

static void on_before_wait(uv_prepare_t *prepare)
{
	struct kr_loop *loop = prepare->data;

	loop->tasks_follow = true;
}

static void on_after_wait(uv_check_t *check)
{
	struct kr_loop *loop = check->data;
	struct kr_task *task;
	size_t left;
	bool stop;

	for (unsigned turn = 0; turn < TURN && (task = take_task(loop)) != NULL; turn++)
		task->fn(task);
	loop->tasks_follow = false;
	pthread_mutex_lock(&loop->lock);
	left = loop->count;
	stop = loop->stop;
	pthread_mutex_unlock(&loop->lock);
	if (left)
		uv_async_send(&loop->async);
	else if (stop && !uv_is_closing((uv_handle_t *)&loop->async))
		close_handles(loop);
}

/* It has ended the wait: on_after_wait does the rest. */
static void on_async(uv_async_t *async)
{
	(void)async;
}

static void *run(void *context)
{
	struct kr_loop *loop = context;

	pthread_setname_np(pthread_self(), "kr-loop");
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	return NULL;
}

int kr_loop_new(struct kr_loop **ret_loop)
{
	struct kr_loop *loop = kr_xcalloc(1, sizeof(*loop));
	int err = uv_loop_init(&loop->uv);

	if (err < 0) {
		free(loop);
		return kr_fail_errno(err, "cannot make an event loop");
	}
	pthread_mutex_init(&loop->lock, NULL);
	kr_list_init(&loop->tasks);
	loop->async.data = loop->before_wait.data = loop->after_wait.data = loop;
	err = uv_async_init(&loop->uv, &loop->async, on_async);
	assert(err == 0);
	uv_prepare_init(&loop->uv, &loop->before_wait);
	uv_prepare_start(&loop->before_wait, on_before_wait);
	uv_check_init(&loop->uv, &loop->after_wait);
	uv_check_start(&loop->after_wait, on_after_wait);
	err = -pthread_create(&loop->thread, NULL, run, loop);
	if (err < 0) {
		close_handles(loop);
		uv_run(&loop->uv, UV_RUN_DEFAULT);
		uv_loop_close(&loop->uv);
		free(loop);
		return kr_fail_errno(err, "cannot start a thread");
	}
	*ret_loop = loop;
	return 0;
}

void kr_loop_free(struct kr_loop *loop)
{
	if (!loop)
		return;
	pthread_mutex_lock(&loop->lock);
	loop->stop = true;
	pthread_mutex_unlock(&loop->lock);
	uv_async_send(&loop->async);
	pthread_join(loop->thread, NULL);
	int err = uv_loop_close(&loop->uv);
	assert(err == 0);
	(void)err;
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

uv_loop_t *kr_loop_uv(struct kr_loop *loop)
{
	return &loop->uv;
}

bool kr_loop_here(const struct kr_loop *loop)
{
	return pthread_equal(pthread_self(), loop->thread);
}

void kr_loop_post(struct kr_loop *loop, struct kr_task *task)
{
	bool first = false;

	pthread_mutex_lock(&loop->lock);
	if (!task->queued) {
		task->queued = true;
		first = loop->count++ == 0;
		kr_list_append(&loop->tasks, &task->link);
	}
	/* Under the lock: otherwise a task that ends the loop could free it in between. */
	if (first && !(kr_loop_here(loop) && loop->tasks_follow))
		uv_async_send(&loop->async);
	pthread_mutex_unlock(&loop->lock);
}

void kr_loop_forget(struct kr_loop *loop, struct kr_task *task)
{
	KR_SCOPED_LOCK(&loop->lock);

	if (!task->queued)
		return;
	task->queued = false;
	loop->count--;
	kr_list_remove(&task->link);
}

struct wait {
	struct kr_task task;
	void (*fn)(void *context);
	void *context;
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	bool done;
};

static void run_wait(struct kr_task *task)
{
	struct wait *wait = KR_CONTAINER_OF(task, struct wait, task);

	wait->fn(wait->context);
	pthread_mutex_lock(&wait->lock);
	wait->done = true;
	pthread_cond_signal(&wait->done_cond);
	pthread_mutex_unlock(&wait->lock);
}

void kr_loop_run(struct kr_loop *loop, void (*fn)(void *context), void *context)
{
	struct wait wait = {.task.fn = run_wait,
		.fn = fn,
		.context = context,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.done_cond = PTHREAD_COND_INITIALIZER};

	if (kr_loop_here(loop)) {
		fn(context);
		return;
	}
	kr_loop_post(loop, &wait.task);
	pthread_mutex_lock(&wait.lock);
	while (!wait.done)
		pthread_cond_wait(&wait.done_cond, &wait.lock);
	pthread_mutex_unlock(&wait.lock);
	pthread_mutex_destroy(&wait.lock);
	pthread_cond_destroy(&wait.done_cond);
}
