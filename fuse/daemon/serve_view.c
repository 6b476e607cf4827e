/* See serve_view.h.  kr-loop has the control socket and the signals; the workers (kernel.c) do all else. */
#include "fuse/daemon/serve_view.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/loop.h"
#include "fuse/daemon/control.h"
#include "fuse/daemon/kernel.h"
#include "fuse/daemon/unmount_watch.h"
#include "fuse/view/view.h"

enum { SIGNALS = 3 };

static const struct kr_kernel_side side = {.operations = &kr_view_operations};

struct serve {
	struct kr_mount mount;
	struct kr_kernel *kernel;
	uv_signal_t signals[SIGNALS]; /* loop thread */
	int err;                      /* of the loop's part, for the main thread, which waits for it */
	char reason[512];
};

static void on_signal(uv_signal_t *handle, int number)
{
	struct serve *serve = handle->data;

	if (number == SIGHUP && !serve->mount.options->foreground) {
		kr_log_info("SIGHUP: there is nothing to read again (SIGTERM unmounts)");
		return;
	}
	kr_log_info("signal %d: unmounting", number);
	atomic_store(&serve->mount.stopping, true);
	kr_kernel_wake(serve->kernel);
}

static void start_loop(void *context)
{
	static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
	struct serve *serve = context;
	struct kr_mount *mount = &serve->mount;
	unsigned dev_major, dev_minor;

	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_init(mount->loop, &serve->signals[i]);
		serve->signals[i].data = serve;
		uv_signal_start(&serve->signals[i], on_signal, numbers[i]);
	}
	kr_kernel_device(serve->kernel, &dev_major, &dev_minor);
	serve->err = kr_control_new(mount, dev_major, dev_minor, &mount->control);
	if (serve->err < 0)
		snprintf(serve->reason, sizeof(serve->reason), "%s", kr_fail_reason());
	mount->unmount_watch = kr_unmount_watch_new(mount, dev_major, dev_minor);
}

static void stop_loop(void *context)
{
	struct serve *serve = context;

	kr_control_free(serve->mount.control);
	kr_unmount_watch_free(serve->mount.unmount_watch);
	for (int i = 0; i < SIGNALS; i++)
		if (serve->signals[i].data)
			uv_close((uv_handle_t *)&serve->signals[i], NULL);
}

static int make(struct serve *serve)
{
	struct kr_mount *mount = &serve->mount;
	int err = kr_view_new(mount, &mount->view);

	if (err == 0)
		err = kr_loop_new(&mount->kr_loop);
	if (err < 0)
		return err;
	mount->loop = kr_loop_uv(mount->kr_loop);
	err = kr_kernel_new(mount, &side, &serve->kernel);
	if (err < 0)
		return err;
	mount->fuse = kr_kernel_fuse(serve->kernel);
	kr_loop_run(mount->kr_loop, start_loop, serve);
	if (serve->err < 0)
		return kr_fail(serve->err, "%s", serve->reason);
	return kr_kernel_start(serve->kernel);
}

static void unmake(struct serve *serve)
{
	struct kr_mount *mount = &serve->mount;

	kr_kernel_stop(serve->kernel);
	kr_local_leaving(mount->local);
	if (mount->kr_loop)
		kr_loop_run(mount->kr_loop, stop_loop, serve);
	kr_loop_free(mount->kr_loop);
	kr_view_free(mount->view);
	kr_kernel_free(serve->kernel);
}

int kr_serve_view(
	const struct kr_mount_options *options, struct kr_local *local, bool (*ready)(void *context), void *context)
{
	struct serve serve = {.mount = {.options = options, .local = local}};
	char reason[512];
	int result = make(&serve);

	snprintf(reason, sizeof(reason), "%s", result < 0 ? kr_fail_reason() : "");
	if (result == 0 && !atomic_load(&serve.mount.stopping) && ready(context))
		kr_kernel_wait(serve.kernel);
	unmake(&serve);
	return result < 0 ? kr_fail(result, "%s", reason) : 0;
}
