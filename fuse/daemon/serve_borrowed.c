/* See serve_borrowed.h.  The main thread makes the mount, waits for its end, and takes it down.  All else runs in
 * kr-loop: the connection to the lender (fuse/lend/borrower.h), which has the state of the mount, and the kernel's
 * requests (fuse/lend/borrower_kernel.h).
 */
#include "fuse/daemon/serve_borrowed.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "fuse/base/loop.h"
#include "fuse/daemon/borrowed_control.h"
#include "fuse/daemon/kernel.h"
#include "fuse/daemon/serve.h"
#include "fuse/lend/borrower.h"

enum { SIGNALS = 3, TICK_MS = 100 };

struct serve {
	struct kr_mount mount;
	struct kr_kernel *kernel;
	struct kr_borrower *borrower;

	/* Loop thread. */
	uv_timer_t tick;
	uv_signal_t signals[SIGNALS];
	struct kr_borrowed_control control;
	bool terminating; /* by a signal */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum kr_borrower_state state; /* guarded by lock, as is the rest; the loop thread alone changes it */
	int result;
	char reason[512];
};

/* --- the loop --------------------------------------------------------------------------------- */

static void on_change(void *context, enum kr_borrower_state state, int result)
{
	struct serve *serve = context;
	KR_SCOPED_LOCK(&serve->lock);

	serve->state = state;
	serve->result = result;
	if (result < 0)
		snprintf(serve->reason, sizeof(serve->reason), "%s", kr_fail_reason());
	pthread_cond_broadcast(&serve->changed);
}

static void on_tick(uv_timer_t *timer)
{
	kr_borrower_tick(timer->data);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct serve *serve = handle->data;
	const struct kr_mount_options *options = serve->mount.options;

	if (serve->state < KR_BORROWER_MOUNTED) {
		kr_borrower_end(serve->borrower, kr_fail(-EINTR, "interrupted by a signal"));
	} else if (number == SIGHUP && !options->foreground) {
		kr_log_info("SIGHUP: there is nothing to read again (SIGTERM unmounts)");
	} else if (serve->terminating && !kr_borrower_conn(serve->borrower)) {
		kr_log_warn("signal %d again, and %s cannot be reached: it keeps what was written", number,
			options->lender.host);
		kr_borrower_end(serve->borrower, 1);
	} else {
		kr_log_info("signal %d: draining, then unmounting", number);
		serve->terminating = true;
		kr_borrower_part(serve->borrower, KR_LEND_TERM);
	}
}

static void start_loop(void *context)
{
	static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
	struct serve *serve = context;

	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_init(serve->mount.loop, &serve->signals[i]);
		serve->signals[i].data = serve;
		uv_signal_start(&serve->signals[i], on_signal, numbers[i]);
	}
	uv_timer_init(serve->mount.loop, &serve->tick);
	serve->tick.data = serve->borrower;
	uv_timer_start(&serve->tick, on_tick, 0, TICK_MS);
}

static void start_serving(void *context)
{
	struct serve *serve = context;
	struct kr_borrowed_control *control = &serve->control;

	control->borrower = serve->borrower;
	kr_kernel_device(serve->kernel, &control->dev_major, &control->dev_minor);
	kr_borrowed_control_start(control, serve->mount.loop);
	kr_borrower_mounted(serve->borrower, fuse_session_fd(kr_kernel_fuse(serve->kernel)));
}

static void stop_loop(void *context)
{
	struct serve *serve = context;

	kr_borrowed_control_stop(&serve->control);
	kr_borrower_stop(serve->borrower);
	uv_close((uv_handle_t *)&serve->tick, NULL);
	for (int i = 0; i < SIGNALS; i++)
		uv_close((uv_handle_t *)&serve->signals[i], NULL);
}

/* --- the main thread -------------------------------------------------------------------------- */

/* Waits for STATE or the end.  The end's result, with its reason; else 0. */
static int wait_for(struct serve *serve, enum kr_borrower_state state)
{
	KR_SCOPED_LOCK(&serve->lock);

	while (serve->state < state)
		pthread_cond_wait(&serve->changed, &serve->lock);
	return serve->result < 0 ? kr_fail(serve->result, "%s", serve->reason) : serve->result;
}

static int make(struct serve *serve)
{
	static const struct fuse_lowlevel_ops none;
	static const struct kr_kernel_side side = {.operations = &none};
	struct kr_mount *mount = &serve->mount;
	int err;

	kr_serve_give_up_privileges();
	kr_give_back_idle_memory();
	err = kr_loop_new(&mount->kr_loop);
	if (err < 0)
		return err;
	mount->loop = kr_loop_uv(mount->kr_loop);
	err = kr_borrower_new(mount->options, mount->loop, on_change, serve, &serve->borrower);
	if (err < 0)
		return err;
	kr_loop_run(mount->kr_loop, start_loop, serve);
	err = wait_for(serve, KR_BORROWER_READY);
	if (err == 0)
		err = kr_kernel_new(mount, &side, &serve->kernel);
	if (err == 0)
		kr_loop_run(mount->kr_loop, start_serving, serve);
	return err;
}

static void unmake(struct serve *serve)
{
	kr_kernel_stop(serve->kernel);
	if (serve->kernel) /* else a notification could wait for ever for what programs still have open */
		kr_kernel_abort(serve->kernel);
	if (serve->borrower)
		kr_loop_run(serve->mount.kr_loop, stop_loop, serve);
	kr_loop_free(serve->mount.kr_loop);
	kr_kernel_free(serve->kernel);
	kr_borrower_free(serve->borrower);
}

int kr_serve_borrowed(const struct kr_mount_options *options, bool (*ready)(void *context), void *context)
{
	static struct serve serve = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	char reason[512];
	int result;

	serve.mount.options = options;
	result = make(&serve);
	if (result == 0 && ready(context))
		result = wait_for(&serve, KR_BORROWER_OVER);
	snprintf(reason, sizeof(reason), "%s", kr_fail_reason());
	if (result == -ENOTCONN && serve.kernel)
		kr_kernel_abort(serve.kernel); /* the mount stays, until it is unmounted */
	else
		unmake(&serve);
	return result < 0 ? kr_fail(result, "%s", reason) : result;
}
