/* See prefetch.h.
 *
 *   wait for READ -> wait for attributes -> the stage reads the file ahead -> all is here, or time is over: answer
 *
 * Each step starts from the first of these, because READ may be recalled and the file may change at any time.  A small
 * file is looked at whenever blocks have come, a large one only with the tick: looking counts its blocks.
 */
#include "fuse/file/prefetch.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/list.h"
#include "fuse/readcache/cache.h"
#include "fuse/file/file.h"
#include "fuse/base/mount.h"
#include "fuse/session/rpc.h"
#include "fuse/readcache/stage.h"

enum { TICK_MS = 50, BEGIN_MS = 500, MS_MAX = 10000, SMALL = 8 << 20 };

struct kr_prefetches {
	struct kr_mount *mount;
	struct kr_list list;
	uv_timer_t tick; /* while there are any */
};

struct prefetch {
	struct kr_link link;
	struct kr_prefetches *prefetches;
	struct kr_file *file; /* a reference */
	struct kr_file_waiter waiter;
	struct kr_down down;
	uint64_t until_ns;
	bool begun;                     /* blocks come, also when the server waits no longer */
	struct kr_prefetch_reply reply; /* as far as it is known */
};

static void drop(struct prefetch *prefetch)
{
	kr_list_remove(&prefetch->link);
	kr_file_unwait(&prefetch->waiter);
	kr_file_put(prefetch->file);
	free(prefetch);
}

static void answer(struct prefetch *prefetch, int err)
{
	kr_rpc_answer(prefetch->prefetches->mount->rpc, &prefetch->down, err, err ? NULL : &prefetch->reply);
	kr_file_step(prefetch->file); /* perhaps no program needs the file any more */
	drop(prefetch);
}

/* The stage under READ.  NULL: the lease or the attributes must come first; the prefetch waits for them. */
static struct kr_stage *enter(struct prefetch *prefetch)
{
	struct kr_file *file = prefetch->file;
	struct kr_stage *stage;
	bool entered, stale;
	uint32_t epoch;

	pthread_mutex_lock(&file->lock);
	entered = !kr_mount_fenced(file->mount) && kr_lease_state_enter(&file->holder, KR_LEASE_READ);
	epoch = file->holder.epoch;
	stale = file->stale;
	prefetch->reply.size = file->base.size;
	pthread_mutex_unlock(&file->lock);
	if (!entered) {
		kr_file_wait(file, &prefetch->waiter);
		kr_file_need(file, KR_LEASE_READ);
		return NULL;
	}
	stage = stale ? NULL : kr_file_stage(file);
	pthread_mutex_lock(&file->lock);
	kr_lease_state_leave(&file->holder, KR_LEASE_READ, epoch);
	if (file->holder.recalled | file->holder.leaving | file->holder.suspect)
		kr_file_step(file);
	pthread_mutex_unlock(&file->lock);
	kr_file_wait(file, &prefetch->waiter);
	if (stale)
		kr_file_refresh(file);
	return stage;
}

/* Goes on; answers when the file is here or cannot come. */
static void look(struct prefetch *prefetch)
{
	struct kr_cache_counters counters;
	struct kr_stage *stage;
	int err;

	kr_cache_counters(prefetch->prefetches->mount->cache, &counters);
	prefetch->reply.room = counters.max_bytes;
	stage = enter(prefetch);
	if (!stage)
		return;
	if (prefetch->reply.size > counters.max_bytes) {
		answer(prefetch, 0); /* says so by these numbers */
		return;
	}
	err = kr_stage_all(stage, &prefetch->reply.bytes);
	prefetch->begun = true;
	prefetch->reply.done = err == 1;
	if (err)
		answer(prefetch, KR_MIN(err, 0));
}

static void woken(struct kr_waiter *waiter)
{
	struct prefetch *prefetch = KR_CONTAINER_OF(waiter, struct prefetch, waiter.waiter);
	int err = kr_file_lease_error(prefetch->file);

	if (err)
		answer(prefetch, err);
	else if (prefetch->reply.size > SMALL)
		kr_file_wait(prefetch->file, &prefetch->waiter);
	else
		look(prefetch);
}

static void tick(uv_timer_t *timer)
{
	struct kr_prefetches *prefetches = timer->data;
	struct prefetch *prefetch, *after;
	uint64_t now = kr_clock_ns();

	KR_LIST_FOR_EACH_SAFE(prefetch, after, &prefetches->list, link) {
		if (now >= prefetch->until_ns && prefetch->begun)
			answer(prefetch, 0);
		else if (now >= prefetch->until_ns + BEGIN_MS * KR_NS_PER_MS)
			answer(prefetch, -EAGAIN);
		else
			look(prefetch);
	}
	if (kr_list_empty(&prefetches->list))
		uv_timer_stop(timer);
}

static void on_bring(struct kr_mount *mount, const struct kr_down *down, const void *message, struct kr_buf *data)
{
	const struct kr_prefetch_request *request = message;
	struct kr_prefetches *prefetches = mount->prefetches;
	struct prefetch *prefetch = kr_xcalloc(1, sizeof(*prefetch));

	(void)data;
	prefetch->prefetches = prefetches;
	prefetch->file = kr_file_get_or_new(mount, &request->file);
	prefetch->waiter.waiter.wake = woken;
	prefetch->down = *down;
	prefetch->until_ns = kr_clock_ns() + KR_MIN(request->ms, (uint32_t)MS_MAX) * KR_NS_PER_MS;
	kr_list_append(&prefetches->list, &prefetch->link);
	if (!uv_is_active((uv_handle_t *)&prefetches->tick))
		uv_timer_start(&prefetches->tick, tick, TICK_MS, TICK_MS);
	look(prefetch);
}

struct kr_prefetches *kr_prefetches_new(struct kr_mount *mount)
{
	struct kr_prefetches *prefetches = kr_xcalloc(1, sizeof(*prefetches));

	prefetches->mount = mount;
	kr_list_init(&prefetches->list);
	uv_timer_init(mount->loop, &prefetches->tick);
	prefetches->tick.data = prefetches;
	kr_rpc_on(mount->rpc, KR_MSG_PREFETCH, on_bring);
	return prefetches;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void kr_prefetches_free(struct kr_prefetches *prefetches)
{
	if (!prefetches)
		return;
	while (!kr_list_empty(&prefetches->list))
		drop(KR_LIST_ENTRY(prefetches->list.head.next, struct prefetch, link));
	uv_close((uv_handle_t *)&prefetches->tick, on_closed);
}
