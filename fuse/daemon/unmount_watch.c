/* See unmount_watch.h.  The kernel reports each change of this namespace's mounts as a priority event of mountinfo.
 * The first poll takes the event away, so the loop cannot watch it (fuse/base/turns.h), and a thread waits for it. */
#include "fuse/daemon/unmount_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/loop.h"
#include "fuse/base/options.h"
#include "fuse/daemon/mountpoint.h"
#include "fuse/writeback/flush.h"

/* After an ordinary unmount the kernel ends the session a moment later: then there is nothing to be said. */
enum { SAY_MS = 1000 };

struct kr_unmount_watch {
	struct kr_mount *mount;
	unsigned dev_major, dev_minor;
	int fd, end_fd; /* mountinfo; an eventfd: the thread ends */
	pthread_t thread;
	struct kr_task look_task;
	uv_timer_t say;
};

static void on_say(uv_timer_t *timer)
{
	const struct kr_unmount_watch *watch = timer->data;

	if (atomic_load(&watch->mount->stopping))
		return;
	kr_log_warn(
		"%s is no longer mounted here, but in use: programs have files of it open, or another mount namespace "
		"holds it (grep -l ' %u:%u ' /proc/[0-9]*/mountinfo tells by which processes); %sthis process ends when nothing uses it any more, or by SIGTERM",
		watch->mount->options->mount_point, watch->dev_major, watch->dev_minor,
		watch->mount->flusher ? "all is flushed at once from now on; " : "");
}

static void look(struct kr_task *task)
{
	struct kr_unmount_watch *watch = KR_CONTAINER_OF(task, struct kr_unmount_watch, look_task);
	bool was_unmounted = atomic_load(&watch->mount->unmounted);
	int mounted = kr_mounted_has(watch->dev_major, watch->dev_minor);

	if (mounted < 0 || mounted == !was_unmounted)
		return;
	atomic_store(&watch->mount->unmounted, !mounted);
	if (mounted) {
		uv_timer_stop(&watch->say);
		return;
	}
	if (watch->mount->flusher)
		kr_flusher_ask_all(watch->mount->flusher, KR_FLUSH_COMMAND);
	uv_timer_start(&watch->say, on_say, SAY_MS, 0);
}

static void *wait_for_changes(void *context)
{
	struct kr_unmount_watch *watch = context;
	struct pollfd events[] = {{.fd = watch->fd, .events = POLLPRI}, {.fd = watch->end_fd, .events = POLLIN}};

	pthread_setname_np(pthread_self(), "kr-mounts");
	while (poll(events, KR_ARRAY_SIZE(events), -1) < 0 || !events[1].revents)
		kr_loop_post(watch->mount->kr_loop, &watch->look_task);
	return NULL;
}

static void close_fds(struct kr_unmount_watch *watch)
{
	if (watch->fd >= 0)
		close(watch->fd);
	if (watch->end_fd >= 0)
		close(watch->end_fd);
	free(watch);
}

struct kr_unmount_watch *kr_unmount_watch_new(struct kr_mount *mount, unsigned dev_major, unsigned dev_minor)
{
	struct kr_unmount_watch *watch = kr_xcalloc(1, sizeof(*watch));
	int err;

	*watch = (struct kr_unmount_watch){
		.mount = mount, .dev_major = dev_major, .dev_minor = dev_minor, .look_task.fn = look};
	watch->fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	watch->end_fd = eventfd(0, EFD_CLOEXEC);
	err = watch->fd < 0 || watch->end_fd < 0 ? errno :
						   pthread_create(&watch->thread, NULL, wait_for_changes, watch);
	if (err) {
		kr_log_warn("cannot watch /proc/self/mountinfo: %s", strerror(err));
		close_fds(watch);
		return NULL;
	}
	uv_timer_init(mount->loop, &watch->say);
	watch->say.data = watch;
	return watch;
}

static void on_closed(uv_handle_t *handle)
{
	close_fds(handle->data);
}

void kr_unmount_watch_free(struct kr_unmount_watch *watch)
{
	if (!watch)
		return;
	eventfd_write(watch->end_fd, 1);
	pthread_join(watch->thread, NULL);
	kr_loop_forget(watch->mount->kr_loop, &watch->look_task);
	uv_close((uv_handle_t *)&watch->say, on_closed);
}
