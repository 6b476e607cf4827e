/* See loop.h.  One lock guards the queue of posted tasks.  The thread that has the turn (fuse/base/turns.h) takes them
 * one by one, at most TURN of them at a time, so that sockets and timers get their share.  It passes the turn on when
 * there are no tasks.
 * A post wakes the thread that waits for events.  It need not if the poster itself looks at the tasks soon, because it
 * has the turn or will help.  One wake is enough until the queue has been found empty.
 */
#include "fuse/base/loop.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "common/rpc/thread_pool.h"
#include "fuse/base/turns.h"

enum { TURN = 128, HELP_STEPS = 16 };

struct kr_loop {
	uv_loop_t uv;
	struct kr_turns turns;
	uv_check_t after_wait;
	pthread_t thread;
	pthread_mutex_t lock; /* guards the rest and every task's `queued` */
	struct kr_list tasks;
	size_t count;
	bool woken; /* since the queue was empty */
	bool stop, ended;
};

/* Of a thread that calls kr_loop_help after its posts. */
static _Thread_local bool helper;

static struct kr_task *take_task(struct kr_loop *loop)
{
	KR_SCOPED_LOCK(&loop->lock);
	struct kr_task *task = KR_LIST_POP(&loop->tasks, struct kr_task, link);

	if (!task)
		return NULL;
	task->queued = false;
	loop->count--;
	return task;
}

static void close_handles(struct kr_loop *loop)
{
	kr_turns_close(&loop->turns);
	uv_close((uv_handle_t *)&loop->after_wait, NULL);
}

static void on_after_wait(uv_check_t *check)
{
	struct kr_loop *loop = check->data;
	struct kr_task *task;

	for (unsigned turn = 0; turn < TURN && (task = take_task(loop)) != NULL; turn++)
		task->fn(task);
	KR_SCOPED_LOCK(&loop->lock);
	if (loop->count)
		return;
	loop->woken = false;
	if (!loop->stop || loop->ended)
		return;
	loop->ended = true;
	close_handles(loop);
}

static bool has_tasks(struct kr_loop *loop)
{
	KR_SCOPED_LOCK(&loop->lock);
	return loop->count > 0 && !loop->ended;
}

static void run_all(struct kr_loop *loop)
{
	do
		kr_turns_run(&loop->turns);
	while (has_tasks(loop));
}

static void *run(void *context)
{
	struct kr_loop *loop = context;

	pthread_setname_np(pthread_self(), "kr-loop");
	kr_turns_take(&loop->turns);
	do
		run_all(loop);
	while (kr_turns_wait(&loop->turns));
	return NULL;
}

void kr_loop_will_help(void)
{
	helper = true;
}

void kr_loop_help(struct kr_loop *loop)
{
	if (!has_tasks(loop))
		return;
	if (!kr_turns_try(&loop->turns)) {
		kr_turns_wake(&loop->turns); /* the thread that has the turn may have looked for tasks already */
		return;
	}
	for (unsigned steps = 0; steps < HELP_STEPS; steps++) {
		if (kr_turns_step(&loop->turns) || has_tasks(loop))
			continue;
		kr_turns_pass(&loop->turns);
		return;
	}
	kr_turns_leave(&loop->turns);
	kr_turns_wake(&loop->turns); /* kr-loop does the rest */
}

int kr_loop_new(struct kr_loop **ret_loop)
{
	struct kr_loop *loop;
	int err = kr_thread_pool_start();

	if (err < 0)
		return err;
	loop = kr_xcalloc(1, sizeof(*loop));
	err = uv_loop_init(&loop->uv);
	if (err < 0) {
		free(loop);
		return kr_fail_errno(err, "cannot make an event loop");
	}
	pthread_mutex_init(&loop->lock, NULL);
	kr_list_init(&loop->tasks);
	loop->after_wait.data = loop;
	err = kr_turns_init(&loop->turns, &loop->uv);
	assert(err == 0);
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
	kr_turns_wake(&loop->turns);
	pthread_join(loop->thread, NULL);
	int err = uv_loop_close(&loop->uv);
	assert(err == 0);
	(void)err;
	kr_turns_fini(&loop->turns);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

uv_loop_t *kr_loop_uv(struct kr_loop *loop)
{
	return &loop->uv;
}

bool kr_loop_here(const struct kr_loop *loop)
{
	return kr_turns_mine(&loop->turns);
}

void kr_loop_post(struct kr_loop *loop, struct kr_task *task)
{
	pthread_mutex_lock(&loop->lock);
	if (!task->queued) {
		task->queued = true;
		loop->count++;
		kr_list_append(&loop->tasks, &task->link);
	}
	/* Under the lock: otherwise a task that ends the loop could free it in between. */
	if (!loop->woken && !helper && !kr_turns_covers(&loop->turns)) {
		loop->woken = true;
		kr_turns_wake(&loop->turns);
	}
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
	kr_turns_wake(&loop->turns);
	pthread_mutex_lock(&wait.lock);
	while (!wait.done)
		pthread_cond_wait(&wait.done_cond, &wait.lock);
	pthread_mutex_unlock(&wait.lock);
	pthread_mutex_destroy(&wait.lock);
	pthread_cond_destroy(&wait.done_cond);
}
