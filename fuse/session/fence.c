/* See fence.h. */
#include "fuse/session/fence.h"

#include <stdlib.h>
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/base/fail.h"

enum { LOOK_MS = 100 };

struct kr_fence {
	struct kr_mount *mount;
	void (*on_fenced)(struct kr_mount *mount);
	uv_poll_t poll;
	int fd;
	bool fenced;
};

/* Arms the timer for the fencing time known now.  Replies move that time ahead meanwhile; the expired timer finds that
 * out. */
static void arm(const struct kr_fence *fence)
{
	uint64_t at_ns =
		fence->fenced ? kr_clock_ns() + LOOK_MS * KR_NS_PER_MS : atomic_load(&fence->mount->fence_at_ns);
	struct itimerspec when = {
		.it_value = {.tv_sec = (time_t)(at_ns / KR_NS_PER_S), .tv_nsec = (long)(at_ns % KR_NS_PER_S)}};

	if (at_ns == 0)
		when.it_value.tv_nsec = 1; /* zeros would disarm it */
	timerfd_settime(fence->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_moment(uv_poll_t *poll, int status, int events)
{
	struct kr_fence *fence = poll->data;
	bool fenced = kr_mount_fenced(fence->mount);
	uint64_t count;

	(void)status, (void)events;
	if (read(fence->fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return;
	if (fenced && !fence->fenced)
		fence->on_fenced(fence->mount);
	fence->fenced = fenced;
	arm(fence);
}

int kr_fence_start(struct kr_mount *mount, void (*on_fenced)(struct kr_mount *mount), struct kr_fence **ret_fence)
{
	struct kr_fence *fence = kr_xcalloc(1, sizeof(*fence));
	int err;

	fence->mount = mount;
	fence->on_fenced = on_fenced;
	fence->fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (fence->fd < 0) {
		err = kr_fail_errno(-errno, "no timer for the lease time");
		free(fence);
		return err;
	}
	uv_poll_init(mount->loop, &fence->poll, fence->fd);
	fence->poll.data = fence;
	uv_poll_start(&fence->poll, UV_READABLE, on_moment);
	arm(fence);
	*ret_fence = fence;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct kr_fence *fence = handle->data;

	close(fence->fd);
	free(fence);
}

void kr_fence_stop(struct kr_fence *fence)
{
	if (fence)
		uv_close((uv_handle_t *)&fence->poll, on_closed);
}
