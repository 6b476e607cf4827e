/* See prefetch.h.
 *
 *   waits for READ --> waits for attributes --> the stage reads it all ahead --> everything is here, or the time is
 *   over: answered
 *
 * Each look begins at the beginning: READ may be recalled, and the file may change, at any time.  A small file is
 * looked at whenever something of it has come, a large one with the tick only, because looking means counting its
 * blocks.
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

struct bring {
	struct kr_link link;
	struct kr_prefetches *brings;
	struct kr_file *file; /* a reference */
	struct kr_file_waiter waiter;
	struct kr_down down;
	uint64_t until_ns;
	bool begun;                     /* it comes, also when nobody waits for it any more */
	struct kr_prefetch_reply reply; /* what is known of it so far */
};

static void drop(struct bring *bring)
{
	kr_list_remove(&bring->link);
	kr_file_unwait(&bring->waiter);
	kr_file_put(bring->file);
	free(bring);
}

static void answer(struct bring *bring, int err)
{
	kr_rpc_answer(bring->brings->mount->rpc, &bring->down, err, err ? NULL : &bring->reply);
	kr_file_step(bring->file); /* nobody may need it any more */
	drop(bring);
}

/* The stage under READ; NULL: that, or attributes, have to come first, and it is waited for. */
static struct kr_stage *enter(struct bring *bring)
{
	struct kr_file *file = bring->file;
	struct kr_stage *stage;
	bool entered, stale;
	uint32_t epoch;

	pthread_mutex_lock(&file->lock);
	entered = !kr_mount_fenced(file->mount) && kr_lease_state_enter(&file->holder, KR_LEASE_READ);
	epoch = file->holder.epoch;
	stale = file->stale;
	bring->reply.size = file->base.size;
	pthread_mutex_unlock(&file->lock);
	if (!entered) {
		kr_file_wait(file, &bring->waiter);
		kr_file_need(file, KR_LEASE_READ);
		return NULL;
	}
	stage = stale ? NULL : kr_file_stage(file);
	pthread_mutex_lock(&file->lock);
	kr_lease_state_leave(&file->holder, KR_LEASE_READ, epoch);
	if (file->holder.recalled | file->holder.leaving | file->holder.suspect)
		kr_file_step(file);
	pthread_mutex_unlock(&file->lock);
	kr_file_wait(file, &bring->waiter);
	if (stale)
		kr_file_refresh(file);
	return stage;
}

/* Goes on with it; answers when it is here, or cannot come. */
static void look(struct bring *bring)
{
	struct kr_cache_counters counters;
	struct kr_stage *stage;
	int err;

	kr_cache_counters(bring->brings->mount->cache, &counters);
	bring->reply.room = counters.max_bytes;
	stage = enter(bring);
	if (!stage)
		return;
	if (bring->reply.size > counters.max_bytes) {
		answer(bring, 0); /* says so by these numbers */
		return;
	}
	err = kr_stage_all(stage, &bring->reply.bytes);
	bring->begun = true;
	bring->reply.done = err == 1;
	if (err)
		answer(bring, KR_MIN(err, 0));
}

static void woken(struct kr_waiter *waiter)
{
	struct bring *bring = KR_CONTAINER_OF(waiter, struct bring, waiter.waiter);
	int err = kr_file_lease_error(bring->file);

	if (err)
		answer(bring, err);
	else if (bring->reply.size > SMALL)
		kr_file_wait(bring->file, &bring->waiter);
	else
		look(bring);
}

static void tick(uv_timer_t *timer)
{
	struct kr_prefetches *brings = timer->data;
	struct bring *bring, *after;
	uint64_t now = kr_clock_ns();

	KR_LIST_FOR_EACH_SAFE(bring, after, &brings->list, link) {
		if (now >= bring->until_ns && bring->begun)
			answer(bring, 0);
		else if (now >= bring->until_ns + BEGIN_MS * KR_NS_PER_MS)
			answer(bring, -EAGAIN);
		else
			look(bring);
	}
	if (kr_list_empty(&brings->list))
		uv_timer_stop(timer);
}

static void on_bring(struct kr_mount *mount, const struct kr_down *down, const void *message, struct kr_buf *data)
{
	const struct kr_prefetch_request *request = message;
	struct kr_prefetches *brings = mount->brings;
	struct bring *bring = kr_xcalloc(1, sizeof(*bring));

	(void)data;
	bring->brings = brings;
	bring->file = kr_file_get_or_new(mount, &request->file);
	bring->waiter.waiter.wake = woken;
	bring->down = *down;
	bring->until_ns = kr_clock_ns() + KR_MIN(request->ms, (uint32_t)MS_MAX) * KR_NS_PER_MS;
	kr_list_append(&brings->list, &bring->link);
	if (!uv_is_active((uv_handle_t *)&brings->tick))
		uv_timer_start(&brings->tick, tick, TICK_MS, TICK_MS);
	look(bring);
}

struct kr_prefetches *kr_prefetches_new(struct kr_mount *mount)
{
	struct kr_prefetches *brings = kr_xcalloc(1, sizeof(*brings));

	brings->mount = mount;
	kr_list_init(&brings->list);
	uv_timer_init(mount->loop, &brings->tick);
	brings->tick.data = brings;
	kr_rpc_on(mount->rpc, KR_MSG_PREFETCH, on_bring);
	return brings;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void kr_prefetches_free(struct kr_prefetches *brings)
{
	if (!brings)
		return;
	while (!kr_list_empty(&brings->list))
		drop(KR_LIST_ENTRY(brings->list.head.next, struct bring, link));
	uv_close((uv_handle_t *)&brings->tick, on_closed);
}
