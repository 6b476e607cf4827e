/* See drain.h. */
#include "fuse/writeback/drain.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/writeback/flush.h"
#include "fuse/base/local_dir.h"
#include "fuse/base/options.h"

enum { LOOK_MS = 10 };

struct kr_drain {
	struct kr_mount *mount;
	uint64_t deadline_ns;
	uv_timer_t timer;
	void (*done)(void *context);
	void *context;
};

static void on_closed(uv_handle_t *handle)
{
	struct kr_drain *drain = handle->data;

	drain->done(drain->context);
	free(drain);
}

static void look(uv_timer_t *timer)
{
	struct kr_drain *drain = timer->data;
	struct kr_flusher_left left;

	kr_flusher_left(drain->mount->flusher, &left);
	if ((left.dirty > left.refused + left.orphaned || left.unstable) && kr_clock_ns() < drain->deadline_ns)
		return;
	if (!uv_is_closing((uv_handle_t *)timer))
		uv_close((uv_handle_t *)timer, on_closed);
}

struct kr_drain *kr_drain_start(
	struct kr_mount *mount, uint64_t deadline_ns, void (*done)(void *context), void *context)
{
	struct kr_drain *drain = kr_xcalloc(1, sizeof(*drain));

	*drain = (struct kr_drain){.mount = mount, .deadline_ns = deadline_ns, .done = done, .context = context};
	drain->timer.data = drain;
	uv_timer_init(mount->loop, &drain->timer);
	kr_flusher_ask_all(mount->flusher, KR_FLUSH_COMMAND);
	uv_timer_start(&drain->timer, look, 0, LOOK_MS);
	return drain;
}

void kr_drain_hurry(struct kr_drain *drain)
{
	drain->deadline_ns = 0;
}

bool kr_drain_report(struct kr_mount *mount)
{
	struct kr_flusher_left left;

	kr_flusher_left(mount->flusher, &left);
	if ((!left.dirty && !left.unstable) || mount->options->ends_job)
		return true;
	if (mount->options->head) {
		kr_log_warn("%" PRIu64 " byte%s of %u file%s did not reach %s", left.dirty, KR_S(left.dirty),
			left.files, KR_S(left.files), mount->options->head);
		return false;
	}
	kr_log_warn(
		"%" PRIu64 " byte%s of %u file%s are not on the server (%" PRIu64 " refused by it) and %" PRIu64
		" are not known to be on its disk; they stay in %s, and the next mount with this local directory sends "
		"them",
		left.dirty, KR_S(left.dirty), left.files, KR_S(left.files), left.refused, left.unstable,
		kr_local_journal(mount->local));
	return false;
}
