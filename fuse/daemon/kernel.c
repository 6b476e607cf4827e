/* See kernel.h.
 *
 * Workers are plain threads that block in read(/dev/fuse).  They end when the kernel ends the session (the read fails
 * with ENODEV).  After a lazy unmount with open files the kernel does not end it.  Then the daemon aborts the
 * connection through sysfs.  Where sysfs is missing, a signal wakes the workers until they have seen the session's exit
 * flag.
 */
#include "fuse/daemon/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/cpus.h"
#include "fuse/base/lent.h"
#include "fuse/base/loop.h"
#include "fuse/daemon/mountpoint.h"
#include "fuse/base/options.h"

enum { WORKERS_MIN = 3, WORKERS_MAX = 16, END_WAIT_MS = 500, KICK_MS = 10, LENT_MOUNT_POINT = 32 };

struct kr_kernel {
	struct kr_mount *mount;
	const struct kr_kernel_side *side;
	struct fuse_session *fuse;
	bool mounted, stopped, device_known;
	unsigned dev_major, dev_minor;
	pthread_t workers[64];
	size_t started;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t running; /* guarded by lock, as is `woken` */
	bool woken;
};

extern char **environ;

/* --- mounting --------------------------------------------------------------------------------- */

static int session_arguments(const struct kr_mount_options *options, struct fuse_args *args)
{
	KR_AUTO_FREE char *fsname = NULL;
	char *list = NULL;
	int failed;

	if (asprintf(&fsname, "fsname=%s", options->source) < 0)
		return -ENOMEM;
	failed = fuse_opt_add_arg(args, "kairanfs") || fuse_opt_add_opt_escaped(&list, fsname) ||
		fuse_opt_add_opt(&list, "subtype=kairanfs");
	if (options->read_only)
		failed |= fuse_opt_add_opt(&list, "ro");
	if (options->allow_other)
		failed |= fuse_opt_add_opt(&list, "allow_other");
	if (options->allow_root)
		failed |= fuse_opt_add_opt(&list, "allow_root");
	if (options->default_permissions)
		failed |= fuse_opt_add_opt(&list, "default_permissions");
	if (options->fuse_options)
		failed |= fuse_opt_add_opt(&list, options->fuse_options);
	if (!failed)
		failed = fuse_opt_add_arg(args, "-o") || fuse_opt_add_arg(args, list);
	free(list);
	return failed ? -ENOMEM : 0;
}

/* Sets the kernel's read-ahead to 1 MiB instead of 128 KiB.  Only root may, and no code depends on it. */
static void raise_read_ahead(const struct kr_kernel *kernel)
{
	char path[128];
	KR_AUTO_FD int fd = -1;

	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", kernel->dev_major, kernel->dev_minor);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1024\n", 5) < 0)
		kr_log_debug("%s: %s", path, strerror(errno));
}

/* A lent mount has a number that no device has. */
static int find_device(struct kr_kernel *kernel)
{
	struct kr_mounted mounted = {.dev_major = KR_KERNEL_LENT, .dev_minor = (unsigned)getpid()};
	int err = kr_lent() ? 0 : kr_mounted_find(kernel->mount->options->mount_point, true, &mounted);

	kernel->dev_major = mounted.dev_major;
	kernel->dev_minor = mounted.dev_minor;
	kr_mounted_fini(&mounted);
	kernel->device_known = err == 0;
	return err < 0 ? kr_fail(err, "%s is mounted, and /proc/self/mountinfo does not show it",
				 kernel->mount->options->mount_point) :
			 0;
}

/* Mounts on WHERE.  A dead mount goes just before, so that no program finds the directory below for long. */
static int mount_on(struct kr_kernel *kernel, const char *where)
{
	const struct kr_mount_options *options = kernel->mount->options;
	int err = options->over_dead && !kr_lent() ? kr_mount_point_free(options->mount_point) : 0;

	if (err < 0)
		return err;
	if (fuse_session_mount(kernel->fuse, where) != 0)
		return kr_fail(-EPERM, "cannot mount on %s (see the message above%s)", options->mount_point,
			geteuid() ? "; is fusermount3 installed?" : "");
	kernel->mounted = !kr_lent();
	return 0;
}

int kr_kernel_new(struct kr_mount *mount, const struct kr_kernel_side *side, struct kr_kernel **ret_kernel)
{
	struct kr_kernel *kernel = kr_xcalloc(1, sizeof(*kernel));
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	int err = session_arguments(mount->options, &args);
	KR_AUTO_FREE char *where = kr_xstrdup(mount->options->mount_point);

	if (kr_lent()) {
		free(where);
		where = kr_xcalloc(1, LENT_MOUNT_POINT);
		kr_lent_mount_point(where, LENT_MOUNT_POINT);
	}
	kernel->mount = mount;
	kernel->side = side;
	pthread_mutex_init(&kernel->lock, NULL);
	pthread_cond_init(&kernel->changed, NULL);
	if (err == 0)
		kernel->fuse = fuse_session_new(&args, side->operations, sizeof(*side->operations), mount);
	fuse_opt_free_args(&args);
	if (!kernel->fuse)
		err = kr_fail(-EINVAL, "libfuse refuses the options (its message is above)");
	else
		err = mount_on(kernel, where);
	if (err == 0)
		err = kr_shim_install(kernel->fuse, side->replies);
	if (err == 0)
		err = find_device(kernel);
	if (err == 0) {
		if (kernel->mounted)
			raise_read_ahead(kernel);
		*ret_kernel = kernel;
		return 0;
	}
	kr_kernel_stop(kernel);
	kr_kernel_free(kernel);
	return err;
}

struct fuse_session *kr_kernel_fuse(const struct kr_kernel *kernel)
{
	return kernel->fuse;
}

void kr_kernel_device(const struct kr_kernel *kernel, unsigned *ret_major, unsigned *ret_minor)
{
	*ret_major = kernel->dev_major;
	*ret_minor = kernel->dev_minor;
}

/* --- workers ---------------------------------------------------------------------------------- */

static void *work(void *context)
{
	struct kr_kernel *kernel = context;
	struct fuse_buf buffer = {0};

	pthread_setname_np(pthread_self(), "kr-fuse");
	kr_loop_will_help();
	while (!fuse_session_exited(kernel->fuse)) {
		int length = fuse_session_receive_buf(kernel->fuse, &buffer);

		if (length == -EINTR)
			continue;
		if (length <= 0)
			break;
		if (kernel->side->arrived)
			kernel->side->arrived(kernel->mount, buffer.mem);
		fuse_session_process_buf(kernel->fuse, &buffer);
		if (kernel->side->served)
			kernel->side->served(kernel->mount);
		kr_loop_help(kernel->mount->kr_loop);
	}
	free(buffer.mem);
	pthread_mutex_lock(&kernel->lock);
	kernel->running--;
	kernel->woken = true;
	pthread_cond_broadcast(&kernel->changed);
	pthread_mutex_unlock(&kernel->lock);
	return NULL;
}

static void on_kick(int number)
{
	(void)number; /* a signal that only interrupts a read */
}

static size_t worker_count(const struct kr_mount_options *options)
{
	if (options->threads)
		return options->threads;
	return (size_t)KR_MAX(WORKERS_MIN, KR_MIN(WORKERS_MAX, (int)kr_cpus_usable() + 1));
}

int kr_kernel_start(struct kr_kernel *kernel)
{
	struct sigaction kick = {.sa_handler = on_kick};
	size_t count = worker_count(kernel->mount->options);

	sigaction(SIGUSR1, &kick, NULL);
	for (size_t i = 0; i < count; i++) {
		pthread_mutex_lock(&kernel->lock);
		kernel->running++;
		pthread_mutex_unlock(&kernel->lock);
		int err = pthread_create(&kernel->workers[i], NULL, work, kernel);

		if (err) {
			kernel->running--;
			return kr_fail_errno(-err, "cannot start a thread");
		}
		kernel->started++;
	}
	return 0;
}

void kr_kernel_wait(struct kr_kernel *kernel)
{
	pthread_mutex_lock(&kernel->lock);
	while (!kernel->woken)
		pthread_cond_wait(&kernel->changed, &kernel->lock);
	pthread_mutex_unlock(&kernel->lock);
}

void kr_kernel_wake(struct kr_kernel *kernel)
{
	if (!kernel)
		return;
	pthread_mutex_lock(&kernel->lock);
	kernel->woken = true;
	pthread_cond_broadcast(&kernel->changed);
	pthread_mutex_unlock(&kernel->lock);
}

/* --- unmounting ------------------------------------------------------------------------------- */

static bool workers_ended(struct kr_kernel *kernel, uint64_t wait_ms)
{
	const struct timespec end = kr_monotonic_after(wait_ms * KR_NS_PER_MS);
	bool ended;

	pthread_mutex_lock(&kernel->lock);
	while (kernel->running && kr_cond_wait_until(&kernel->changed, &kernel->lock, end))
		;
	ended = kernel->running == 0;
	pthread_mutex_unlock(&kernel->lock);
	return ended;
}

static void run_fusermount(const char *path)
{
	char program[] = "fusermount3", unmount[] = "-u", quiet[] = "-q", lazy[] = "-z", dashes[] = "--";
	KR_AUTO_FREE char *copy = kr_xstrdup(path);
	char *argv[] = {program, unmount, quiet, lazy, dashes, copy, NULL};
	pid_t pid;

	if (posix_spawnp(&pid, program, NULL, NULL, argv, environ) == 0)
		waitpid(pid, NULL, 0);
}

/* Unmounts if the mount there is still this daemon's; a mount just made is. */
static void unmount(const struct kr_kernel *kernel)
{
	const char *path = kernel->mount->options->mount_point;
	struct kr_mounted mounted = {0};
	bool ours = kr_mounted_find(path, true, &mounted) == 0 && mounted.dev_major == kernel->dev_major &&
		mounted.dev_minor == kernel->dev_minor;

	kr_mounted_fini(&mounted);
	if ((ours || !kernel->device_known) && umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		run_fusermount(path);
}

void kr_kernel_abort(const struct kr_kernel *kernel)
{
	char path[128];
	KR_AUTO_FD int fd = -1;

	if (!kernel->mounted)
		return;
	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/abort", kernel->dev_minor);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1", 1) < 0)
		kr_log_debug("%s: %s", path, strerror(errno));
}

static void kick_workers(struct kr_kernel *kernel)
{
	fuse_session_exit(kernel->fuse);
	while (!workers_ended(kernel, KICK_MS))
		for (size_t i = 0; i < kernel->started; i++)
			pthread_kill(kernel->workers[i], SIGUSR1);
}

void kr_kernel_stop(struct kr_kernel *kernel)
{
	if (!kernel || kernel->stopped)
		return;
	kernel->stopped = true;
	if (kernel->mounted)
		unmount(kernel);
	if (kr_lent())
		kr_lent_end();
	if (!workers_ended(kernel, END_WAIT_MS)) {
		kr_log_info("files are still open on %s: ending them", kernel->mount->options->mount_point);
		kr_kernel_abort(kernel);
	}
	if (!workers_ended(kernel, END_WAIT_MS))
		kick_workers(kernel);
	for (size_t i = 0; i < kernel->started; i++)
		pthread_join(kernel->workers[i], NULL);
}

/* Closes the connection, which ends it even if other namespaces keep the mount.  A descriptor that poll(2) reports as
 * broken takes its place: so fuse_session_unmount sees that no mount is left. */
static void sever(const struct kr_kernel *kernel)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	dup2(ends[1], fuse_session_fd(kernel->fuse));
	close(ends[0]);
	close(ends[1]);
}

void kr_kernel_free(struct kr_kernel *kernel)
{
	if (!kernel)
		return;
	if (kernel->fuse) {
		if (kernel->mounted) {
			sever(kernel);
			fuse_session_unmount(kernel->fuse);
		}
		fuse_session_destroy(kernel->fuse);
	}
	pthread_cond_destroy(&kernel->changed);
	pthread_mutex_destroy(&kernel->lock);
	free(kernel);
}
