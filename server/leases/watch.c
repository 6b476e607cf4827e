/* Watching the export for changes by local programs: see watch.h. */
#include "server/leases/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "server/export/export.h"
#include "server/leases/file_table.h"
#include "server/base/pool_share.h"
#include "server/leases/leases.h"
#include "server/base/server.h"

enum { REST_MS = 20, TICK_MS = 50, BATCH = KR_WATCH_RATE * TICK_MS / 1000, TOUCHES = 2 };

struct kr_watch {
	struct kr_server *server;
	struct kr_listener listener; /* closed: stats only */
	bool stopped;
	uv_timer_t timer;
	struct kr_list files; /* kr_sfile.watched: a node may hold READ; the one whose stat is oldest first */
	size_t file_count;
	bool looking; /* a batch is in the pool */
	struct kr_pool_share touches;
	uint64_t unheeded; /* ascends when local programs may have changed files outside the table */
	uint64_t events, changes, lost, looks, touched;
};

static void on_timer(uv_timer_t *timer);

/* --- looking ---------------------------------------------------------------------------------- */

static void put_last(struct kr_watch *watch, struct kr_sfile *file)
{
	file->looked_ns = kr_clock_ns();
	if (kr_link_linked(&file->watched))
		kr_list_remove(&file->watched);
	else if (watch->file_count++ == 0)
		uv_timer_start(&watch->timer, on_timer, TICK_MS, TICK_MS);
	kr_list_append(&watch->files, &file->watched);
}

void kr_watch_look(struct kr_sfile *file, const struct kr_attr *attr, uint64_t changes)
{
	struct kr_watch *watch = file->server->watch;
	struct kr_attr of_bytes = *attr;

	if (!watch || watch->stopped || !S_ISREG(attr->mode)) /* others: watch_names.c */
		return;
	put_last(watch, file);
	kr_carried_apply(&file->carried, changes, &of_bytes);
	if (!kr_last_stat_changed(&file->seen, &of_bytes, changes, watch->listener.fd >= 0, kr_clock_real_ns()))
		return;
	watch->changes++;
	kr_leases_changed_behind(file);
	file->seen.changes = file->changes; /* the state seen is the one after the change */
	file->seen.ctime = attr->ctime;
}

void kr_watch_own_begin(struct kr_server *server, struct kr_own_change *change)
{
	*change = (struct kr_own_change){
		.epoch = server->files->epoch, .unheeded = server->watch ? server->watch->unheeded : 0};
}

void kr_watch_own_before(struct kr_export *export, const struct kr_fid *fid, struct kr_own_change *change)
{
	change->known = kr_export_getattr(export, fid, &change->before) == 0;
}

void kr_watch_own_after(struct kr_export *export, const struct kr_fid *fid, struct kr_own_change *change)
{
	change->known = change->known && kr_export_getattr(export, fid, &change->after) == 0;
}

/* Whether an event of FILE since the begin of CHANGE would show in file->told_epoch.  Before FILE entered the table,
 * the server only counted such an event, among those of all other files of the filesystem. */
static bool shows_events_since(const struct kr_sfile *file, const struct kr_own_change *change)
{
	return file->entered_epoch <= change->epoch || file->server->watch->unheeded == change->unheeded;
}

/* Whether no other change can have come to FILE while CHANGE was under way. */
static bool was_alone(const struct kr_sfile *file, const struct kr_own_change *change)
{
	const struct kr_server *server = file->server;
	const struct kr_watch *watch = server->watch;

	return watch && watch->listener.fd >= 0 && shows_events_since(file, change) && !file->changing &&
		!file->touching && file->changed_epoch <= change->epoch && file->told_epoch <= change->epoch &&
		server->files->forgotten_epoch <= change->epoch;
}

void kr_watch_own(struct kr_sfile *file, const struct kr_own_change *change)
{
	if (change->known && was_alone(file, change))
		kr_carried_note(&file->carried, &change->before, &change->after, file->changes);
	else if (!kr_lease_table_others_hold(&file->leases, 0, KR_LEASE_READ))
		file->seen.known = false;
}

void kr_watch_own_of(struct kr_server *server, const struct kr_fid *fid, const struct kr_own_change *change)
{
	struct kr_sfile *file;

	if (change->known && !S_ISREG(change->after.mode))
		return;
	file = change->known ? kr_sfile_get(server, fid) : kr_sfile_find(server, fid);
	if (!file)
		return;
	if (!change->known)
		kr_sfile_ref(file);
	kr_watch_own(file, change);
	kr_sfile_put(file);
}

bool kr_watch_tells(const struct kr_server *server)
{
	return !server->watch || server->watch->listener.fd >= 0;
}

bool kr_watch_awaits(const struct kr_sfile *file)
{
	return file->server->watch && file->server->watch->listener.fd >= 0 &&
		kr_last_stat_recent(&file->seen, kr_clock_real_ns());
}

void kr_watch_forget(struct kr_sfile *file)
{
	if (!kr_link_linked(&file->watched))
		return;
	kr_list_remove(&file->watched);
	file->server->watch->file_count--;
}

struct batch {
	struct kr_job job;
	struct kr_watch *watch;
	size_t count;
	struct look {
		struct kr_sfile *file; /* reference */
		struct kr_attr attr;
		uint64_t changes;
		int err;
	} looks[BATCH];
};

static void run_batch(struct kr_job *job)
{
	struct batch *batch = KR_CONTAINER_OF(job, struct batch, job);

	for (size_t i = 0; i < batch->count; i++)
		batch->looks[i].err =
			kr_export_getattr(job->server->export, &batch->looks[i].file->fid, &batch->looks[i].attr);
}

static void batch_done(struct kr_job *job)
{
	struct batch *batch = KR_CONTAINER_OF(job, struct batch, job);
	struct kr_watch *watch = batch->watch;

	for (size_t i = 0; i < batch->count; i++) {
		struct look *look = &batch->looks[i];
		struct kr_sfile *file = look->file;

		/* Removed by a local program: a node where a program has the file open keeps its bytes, as with a local
		 * file. */
		if (look->err == -ESTALE)
			kr_leases_gone(file);
		if (!look->err && !file->changing && file->changes == look->changes)
			kr_watch_look(file, &look->attr, look->changes);
		kr_sfile_put(file);
	}
	watch->looks += batch->count;
	watch->looking = false;
	free(batch);
}

static uint64_t period_ns(const struct kr_watch *watch)
{
	return (watch->listener.fd >= 0 ? KR_WATCH_PERIOD_EVENTS_MS : KR_WATCH_PERIOD_MS) * KR_NS_PER_MS;
}

/* The next file for a stat; NULL when none is due. */
static struct kr_sfile *next_due(struct kr_watch *watch, uint64_t now_ns)
{
	while (!kr_list_empty(&watch->files)) {
		struct kr_sfile *file = KR_LIST_ENTRY(watch->files.head.next, struct kr_sfile, watched);

		if (!kr_lease_table_others_hold(&file->leases, 0, KR_LEASE_READ)) {
			kr_watch_forget(file); /* the next grant comes with a stat */
			continue;
		}
		if (file->looked_ns + period_ns(watch) > now_ns) /* may be later than NOW: a file is in a batch once */
			return NULL;
		put_last(watch, file);
		return file;
	}
	return NULL;
}

static void look_around(struct kr_watch *watch, uint64_t now_ns)
{
	struct batch *batch = NULL;
	struct kr_sfile *file;

	while ((!batch || batch->count < BATCH) && (file = next_due(watch, now_ns))) {
		if (!batch)
			batch = kr_xcalloc(1, sizeof(*batch));
		batch->looks[batch->count++] = (struct look){.file = kr_sfile_ref(file), .changes = file->changes};
	}
	if (!batch)
		return;
	batch->watch = watch;
	watch->looking = true;
	kr_job_start(watch->server, &batch->job, run_batch, batch_done);
}

static void on_timer(uv_timer_t *timer)
{
	struct kr_watch *watch = timer->data;

	if (!watch->looking && !watch->server->stopping)
		look_around(watch, kr_clock_ns());
	if (watch->file_count == 0)
		uv_timer_stop(timer);
}

/* --- what the kernel tells -------------------------------------------------------------------- */

struct touch {
	struct kr_pool_share_job gated;
	struct kr_sfile *file; /* reference */
	struct kr_time ctime;
	bool touched;
};

static void run_touch(struct kr_pool_share_job *job)
{
	struct touch *touch = KR_CONTAINER_OF(job, struct touch, gated);

	(void)KR_FAULT("watch.touch");
	touch->touched = kr_export_touch(job->job.server->export, &touch->file->fid, touch->ctime) > 0;
}

static struct kr_time known_ctime(const struct kr_sfile *file);
static void touch_file(struct kr_sfile *file, struct kr_time known);

static void touch_done(struct kr_pool_share_job *job)
{
	struct touch *touch = KR_CONTAINER_OF(job, struct touch, gated);
	struct kr_sfile *file = touch->file;
	struct kr_watch *watch = file->server->watch;

	file->touching = false;
	file->told_epoch = ++file->server->files->epoch;
	if (touch->touched) {
		watch->touched++;
		kr_leases_changed_behind(file);
	}
	if (file->touch_again)
		touch_file(file, known_ctime(file));
	free(touch);
	kr_sfile_put(file);
}

/* The ctime under which nodes know FILE. */
static struct kr_time known_ctime(const struct kr_sfile *file)
{
	struct kr_attr shown = {.ctime = file->carried.shown, .size = file->carried.size};

	kr_carried_apply(&file->carried, file->changes, &shown);
	return kr_time_compare(shown.ctime, file->seen.ctime) == 0 ? file->carried.shown : file->seen.ctime;
}

/* A local program has written to FILE, or closed it after writing.  If nodes know FILE by its present ctime, FILE gets
 * another. */
static void touch_file(struct kr_sfile *file, struct kr_time known)
{
	struct touch *touch;

	file->touch_again = file->touching;
	if (file->touching || !file->seen.known || file->server->stopping)
		return;
	file->touching = true;
	touch = kr_xcalloc(1, sizeof(*touch));
	touch->file = kr_sfile_ref(file);
	touch->ctime = known;
	kr_pool_share_start(&file->server->watch->touches, &touch->gated, run_touch, touch_done);
}

static void on_changed(void *context, const struct kr_fid *fid, unsigned what)
{
	struct kr_watch *watch = context;
	struct kr_sfile *file = kr_sfile_find(watch->server, fid);
	struct kr_time known;

	watch->events++;
	if (!file) { /* no node uses it */
		watch->unheeded++;
		return;
	}
	known = known_ctime(file);
	file->carried.valid = false;
	file->told_epoch = ++watch->server->files->epoch;
	if (what & KR_EVENT_WROTE) {
		watch->changes++;
		kr_leases_changed_behind(file);
	}
	if (what & (KR_EVENT_WROTE | KR_EVENT_CLOSED))
		touch_file(file, known);
}

static void on_lost(void *context)
{
	struct kr_watch *watch = context;
	struct kr_sfile *file;

	kr_log_warn("the kernel lost count of changes in the export: all files in use are taken for changed");
	watch->lost++;
	watch->unheeded++;
	KR_TABLE_FOR_EACH(file, &watch->server->files->by_fid, by_fid) {
		struct kr_time known = known_ctime(file);

		file->carried.valid = false;
		kr_leases_changed_behind(file);
		touch_file(file, known);
	}
}

static void ended(void *context, const char *why)
{
	struct kr_watch *watch = context;

	kr_log_error("no more word of changes in the export: %s; looking at files instead", why);
	kr_export_doubt_ctime(watch->server->export, KR_LAST_STAT_SETTLE_NS);
	on_lost(watch);
}

/* --- listening -------------------------------------------------------------------------------- */

static void on_events(uv_poll_t *poll, int status, int events);

static void rested(uv_timer_t *rest)
{
	struct kr_listener *listener = rest->data;

	uv_poll_start(&listener->poll, UV_READABLE, on_events);
}

/* Events of one file by one process merge while they wait, so the server reads them a little later. */
static void on_events(uv_poll_t *poll, int status, int events)
{
	struct kr_listener *listener = poll->data;

	(void)events;
	if (status == 0 && kr_events_read(listener->fd, listener->export, &listener->sink) == 0) {
		uv_poll_stop(poll);
		uv_timer_start(&listener->rest, rested, listener->rest_ms, 0);
		return;
	}
	kr_listener_close(listener);
	listener->ended(listener->sink.context, status ? uv_strerror(status) : kr_fail_reason());
}

int kr_listener_open(struct kr_listener *listener, uv_loop_t *loop, enum kr_events_kind kind)
{
	int fd = kr_events_open(listener->export, kind);

	listener->fd = -1;
	if (fd < 0)
		return fd;
	if (uv_poll_init(loop, &listener->poll, fd) < 0) {
		close(fd);
		return kr_fail(-ENOMEM, "the events cannot be waited for");
	}
	listener->fd = fd;
	uv_timer_init(loop, &listener->rest);
	listener->poll.data = listener->rest.data = listener;
	uv_poll_start(&listener->poll, UV_READABLE, on_events);
	return 0;
}

void kr_listener_close(struct kr_listener *listener)
{
	if (listener->fd < 0)
		return;
	uv_close((uv_handle_t *)&listener->poll, NULL);
	uv_close((uv_handle_t *)&listener->rest, NULL);
	close(listener->fd);
	listener->fd = -1;
}

/* --- life ------------------------------------------------------------------------------------- */

void kr_watch_start(struct kr_server *server, enum kr_watch_mode mode)
{
	struct kr_watch *watch;

	if (mode == KR_WATCH_NONE)
		return;
	watch = kr_xcalloc(1, sizeof(*watch));
	watch->server = server;
	watch->listener = (struct kr_listener){.export = server->export,
		.fd = -1,
		.rest_ms = REST_MS,
		.sink = {on_changed, on_lost, watch},
		.ended = ended};
	kr_list_init(&watch->files);
	kr_pool_share_init(&watch->touches, server, TOUCHES);
	uv_timer_init(server->loop, &watch->timer);
	watch->timer.data = watch;
	server->watch = watch;
	if (mode == KR_WATCH_AUTO && kr_listener_open(&watch->listener, server->loop, KR_EVENTS_DATA) < 0)
		kr_log_info("changes that others make in the export are noticed within %u s, by looking: %s",
			KR_WATCH_PERIOD_MS / 1000, kr_fail_reason());
	if (watch->listener.fd < 0)
		kr_export_doubt_ctime(server->export, KR_LAST_STAT_SETTLE_NS);
}

void kr_watch_stop(struct kr_server *server)
{
	struct kr_watch *watch = server->watch;

	if (!watch || watch->stopped)
		return;
	watch->stopped = true;
	while (kr_list_pop(&watch->files))
		;
	watch->file_count = 0;
	kr_listener_close(&watch->listener);
	uv_close((uv_handle_t *)&watch->timer, NULL);
}

void kr_watch_free(struct kr_server *server)
{
	free(server->watch);
	server->watch = NULL;
}

json_t *kr_watch_status(const struct kr_server *server)
{
	static const struct kr_watch none = {.listener = {.fd = -1}};
	const struct kr_watch *watch = server->watch ? server->watch : &none;

	return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "mechanism",
		!server->watch                  ? "none" :
			watch->listener.fd >= 0 ? "events" :
						  "looking",
		"period_ms", (json_int_t)(period_ns(watch) / KR_NS_PER_MS), "files", (json_int_t)watch->file_count,
		"changes", (json_int_t)watch->changes, "events", (json_int_t)watch->events, "overflows",
		(json_int_t)watch->lost, "looks", (json_int_t)watch->looks, "touched", (json_int_t)watch->touched);
}
