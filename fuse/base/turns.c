#include "fuse/base/turns.h"

#include <poll.h>

#include "common/base/fail.h"
#include "common/base/util.h"

enum { UV_WITH_WATCHERS = 1 << 16 | 44 << 8 };

static void on_wake(uv_async_t *wake)
{
	(void)wake; /* it has ended the wait */
}

int kr_turns_init(struct kr_turns *turns, uv_loop_t *loop)
{
	int err;

	*turns = (struct kr_turns){.loop = loop, .shared = uv_version() >= UV_WITH_WATCHERS};
	err = uv_async_init(loop, &turns->wake, on_wake);
	if (err < 0)
		return kr_fail_errno(err, "cannot make an event loop");
	uv_unref((uv_handle_t *)&turns->wake);
	pthread_mutex_init(&turns->lock, NULL);
	pthread_cond_init(&turns->changed, NULL);
	return 0;
}

void kr_turns_close(struct kr_turns *turns)
{
	uv_close((uv_handle_t *)&turns->wake, NULL);
}

void kr_turns_fini(struct kr_turns *turns)
{
	pthread_cond_destroy(&turns->changed);
	pthread_mutex_destroy(&turns->lock);
}

void kr_turns_take(struct kr_turns *turns)
{
	uint64_t ticket;

	pthread_mutex_lock(&turns->lock);
	ticket = turns->taken++;
	while (turns->left != ticket)
		pthread_cond_wait(&turns->changed, &turns->lock);
	pthread_mutex_unlock(&turns->lock);
	atomic_store_explicit(&turns->holder, pthread_self(), memory_order_relaxed);
}

bool kr_turns_try(struct kr_turns *turns)
{
	bool is_free;

	pthread_mutex_lock(&turns->lock);
	is_free = turns->taken == turns->left;
	turns->taken += is_free;
	pthread_mutex_unlock(&turns->lock);
	if (!is_free)
		return false;
	atomic_store_explicit(&turns->holder, pthread_self(), memory_order_relaxed);
	return true;
}

void kr_turns_leave(struct kr_turns *turns)
{
	atomic_store_explicit(&turns->holder, 0, memory_order_relaxed);
	pthread_mutex_lock(&turns->lock);
	if (++turns->left != turns->taken)
		pthread_cond_broadcast(&turns->changed);
	pthread_mutex_unlock(&turns->lock);
}

bool kr_turns_mine(const struct kr_turns *turns)
{
	return pthread_equal(atomic_load_explicit(&turns->holder, memory_order_relaxed), pthread_self());
}

bool kr_turns_covers(const struct kr_turns *turns)
{
	return turns->shared && kr_turns_mine(turns);
}

bool kr_turns_step(struct kr_turns *turns)
{
	uv_run(turns->loop, UV_RUN_NOWAIT);
	return uv_backend_timeout(turns->loop) == 0 && uv_loop_alive(turns->loop);
}

void kr_turns_run(struct kr_turns *turns)
{
	while (kr_turns_step(turns))
		;
}

static uint64_t next_timer_ns(const struct kr_turns *turns)
{
	int timeout_ms = uv_backend_timeout(turns->loop);

	return timeout_ms < 0 ? UINT64_MAX : kr_clock_ns() + (uint64_t)timeout_ms * KR_NS_PER_MS;
}

void kr_turns_pass(struct kr_turns *turns)
{
	/* libuv's milliseconds are rounded. */
	bool earlier = next_timer_ns(turns) < turns->waits_until_ns - KR_NS_PER_MS;

	kr_turns_leave(turns);
	if (earlier)
		kr_turns_wake(turns);
}

bool kr_turns_wait(struct kr_turns *turns)
{
	struct pollfd events = {.fd = uv_backend_fd(turns->loop), .events = POLLIN};
	bool ends = !uv_loop_alive(turns->loop);
	int timeout_ms = uv_backend_timeout(turns->loop);

	if (!ends && !turns->shared)
		return uv_run(turns->loop, UV_RUN_ONCE), true;
	turns->waits_until_ns = next_timer_ns(turns);
	kr_turns_leave(turns);
	if (ends)
		return false;
	poll(&events, 1, timeout_ms);
	kr_turns_take(turns);
	return true;
}

void kr_turns_wake(struct kr_turns *turns)
{
	uv_async_send(&turns->wake);
}
