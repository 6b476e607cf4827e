/* See unmount_watch.h.  The kernel reports each change of this namespace's mounts as a priority event of mountinfo. */
#include "fuse/daemon/unmount_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/options.h"
#include "fuse/daemon/mountpoint.h"
#include "fuse/writeback/flush.h"

/* After an ordinary unmount the kernel ends the session a moment later: then there is nothing to be said. */
enum { SAY_MS = 1000 };

struct kr_unmount_watch {
	struct kr_mount *mount;
	unsigned dev_major, dev_minor;
	int fd;
	uv_poll_t poll;
	uv_timer_t say;
	int handles;
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

static void on_change(uv_poll_t *poll, int status, int events)
{
	struct kr_unmount_watch *watch = poll->data;
	bool was_unmounted = atomic_load(&watch->mount->unmounted);
	int mounted = kr_mounted_has(watch->dev_major, watch->dev_minor);

	(void)status, (void)events;
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

struct kr_unmount_watch *kr_unmount_watch_new(struct kr_mount *mount, unsigned dev_major, unsigned dev_minor)
{
	struct kr_unmount_watch *watch = kr_xcalloc(1, sizeof(*watch));
	int err;

	*watch = (struct kr_unmount_watch){.mount = mount, .dev_major = dev_major, .dev_minor = dev_minor};
	watch->fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	err = watch->fd < 0 ? -errno : uv_poll_init(mount->loop, &watch->poll, watch->fd);
	if (err < 0) {
		kr_log_warn("cannot watch /proc/self/mountinfo: %s", strerror(-err));
		if (watch->fd >= 0)
			close(watch->fd);
		free(watch);
		return NULL;
	}
	uv_timer_init(mount->loop, &watch->say);
	watch->poll.data = watch->say.data = watch;
	watch->handles = 2;
	uv_poll_start(&watch->poll, UV_PRIORITIZED, on_change);
	return watch;
}

static void on_closed(uv_handle_t *handle)
{
	struct kr_unmount_watch *watch = handle->data;

	if (--watch->handles > 0)
		return;
	close(watch->fd);
	free(watch);
}

void kr_unmount_watch_free(struct kr_unmount_watch *watch)
{
	if (!watch)
		return;
	uv_close((uv_handle_t *)&watch->poll, on_closed);
	uv_close((uv_handle_t *)&watch->say, on_closed);
}
