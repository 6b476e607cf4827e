/* Syncing what rounds have applied (see stable.h).
 *
 * A file with something to sync is in kr_data.sync_queue, or in sync_urgent when somebody waits, or its sync runs; that
 * holds one reference to it.  Who waits while a sync runs waits for the next one, which begins after the present.
 */
#include "server/flush/stable.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "server/flush/data_state.h"
#include "server/export/export.h"
#include "server/base/state.h"

struct waiter {
	struct kr_link link;
	uint8_t node_id[16];
	kr_stable_fn callback;
	void *context;
};

struct sync_job {
	struct kr_pool_share_job gated;
	struct kr_sfile *file; /* takes over the queue's reference */
	struct kr_list waiters;
	uint64_t cover; /* the rounds up to here are in this sync */
	bool data_only;
	bool tell; /* owners may be told STABLE */
	bool gone; /* the file does not exist any more */
	int err;
};

void kr_stable_file_init(struct kr_stable *stable)
{
	kr_link_init(&stable->queued);
	kr_link_init(&stable->in_sync);
	kr_list_init(&stable->waiters);
	kr_list_init(&stable->asked);
	kr_link_init(&stable->restoring);
}

void kr_stable_file_fini(struct kr_stable *stable)
{
	kr_list_remove(&stable->queued);
	kr_list_remove(&stable->in_sync);
	kr_list_remove(&stable->restoring);
	free(stable->owners);
	stable->owners = NULL;
	stable->owner_count = stable->owner_capacity = 0;
}

/* --- the queue -------------------------------------------------------------------------------- */

static void pump(struct kr_data *data);

static void on_timer(uv_timer_t *timer)
{
	pump(timer->data);
}

void kr_stable_init(struct kr_data *data)
{
	kr_list_init(&data->sync_queue);
	kr_list_init(&data->sync_urgent);
	kr_list_init(&data->in_sync);
	kr_list_init(&data->restoring);
	kr_pool_share_init(&data->syncs, data->server, KR_STABLE_PARALLEL);
	uv_timer_init(data->server->loop, &data->sync_timer);
	data->sync_timer.data = data;
}

/* Queues FILE, or moves it forward; a running sync is followed by another. */
static void enqueue(struct kr_sfile *file, bool urgent)
{
	struct kr_data *data = kr_data_of(file);
	struct kr_stable *stable = &file->data->stable;

	if (stable->running) {
		stable->again = true;
		return;
	}
	if (kr_link_linked(&stable->queued)) {
		if (!urgent || stable->due_ns == 0)
			return;
		kr_list_remove(&stable->queued);
	} else {
		kr_sfile_ref(file);
	}
	urgent = urgent || data->stopping;
	stable->due_ns = urgent ? 0 : kr_clock_ns() + KR_STABLE_DELAY_MS * KR_NS_PER_MS;
	kr_list_append(urgent ? &data->sync_urgent : &data->sync_queue, &stable->queued);
	pump(data);
}

static struct kr_sfile *file_of(struct kr_link *link)
{
	return KR_LIST_ENTRY(link, struct kr_sfile_data, stable.queued)->file;
}

/* --- what a sync means ------------------------------------------------------------------------ */

static void tell_stable(struct kr_sfile *file, uint64_t cover)
{
	struct kr_stable *stable = &file->data->stable;
	struct kr_stable_request msg = {.file = file->fid, .round = cover};
	uint32_t kept = 0;

	stable->good = KR_MAX(stable->good, cover);
	for (uint32_t i = 0; i < stable->owner_count; i++) {
		struct kr_stable_owner *owner = &stable->owners[i];
		struct kr_session *session;

		if (owner->round > cover) {
			stable->owners[kept++] = *owner;
			continue;
		}
		session = kr_session_find_node_id(file->server, owner->node_id);
		if (session)
			kr_callback_send(session, KR_MSG_STABLE, &msg, NULL, NULL);
	}
	stable->owner_count = kept;
}

static void call_waiters(struct kr_list *waiters, int err)
{
	struct kr_link *link;

	while ((link = kr_list_pop(waiters))) {
		struct waiter *waiter = KR_LIST_ENTRY(link, struct waiter, link);

		waiter->callback(waiter->context, err);
		free(waiter);
	}
}

/* --- a sync ----------------------------------------------------------------------------------- */

static void run(struct kr_pool_share_job *gated)
{
	struct sync_job *job = KR_CONTAINER_OF(gated, struct sync_job, gated);
	struct kr_export *export = job->file->server->export;

	job->err = KR_FAULT("stable.before");
	if (job->err == 0)
		job->err = kr_export_fsync(export, &job->file->fid, job->data_only);
	if (job->err == 0)
		job->err = KR_FAULT("stable.after");
	/* A file that is gone has nothing to lose; but when the whole export is gone, its files are not. (That it
	 * stays gone if the power fails now is not known: see docs/recovery.md. To know that, the server would have to
	 * sync the whole filesystem after the removal. Until then these bytes would stay in the journals, and `umount`
	 * would wait.) */
	job->gone = job->err == -ESTALE && kr_export_tick(export) == 0;
	if (job->err && !job->gone)
		kr_state_not_clean(job->file->server->state);
}

/* What the sync was good for, told to whom it concerns. */
static void conclude(struct sync_job *job)
{
	struct kr_sfile *file = job->file;
	struct kr_data *data = kr_data_of(file);
	struct kr_stable *stable = &file->data->stable;
	bool again;

	stable->running = false;
	stable->syncing = 0;
	kr_list_remove(&stable->in_sync);
	call_waiters(&job->waiters, job->err);
	/* Whom nobody could tell yet asks the next instance: an end waits neither for room in the state directory nor
	 * for replays. */
	again = data->stopping ? stable->again && !job->err : stable->again || stable->owner_count;
	again = again || !kr_list_empty(&stable->waiters);
	stable->again = false;
	if (again)
		enqueue(file, !kr_list_empty(&stable->waiters));
	kr_sfile_put(file);
	free(job);
	pump(data);
}

static bool others_may_replay(const struct kr_stable *stable, const uint8_t node_id[16], uint64_t known)
{
	return stable->others_round > known ||
		(stable->writer_round > known && memcmp(stable->writer, node_id, 16) != 0);
}

bool kr_stable_others(const struct kr_sfile *file, const uint8_t node_id[16])
{
	return others_may_replay(&file->data->stable, node_id, kr_synced_round(&kr_data_of(file)->synced, &file->fid));
}

/* Whether it must be written down before those whom it concerns are told. */
static bool must_be_noted(const struct sync_job *job)
{
	const struct kr_stable *stable = &job->file->data->stable;
	uint64_t known = kr_synced_round(&kr_data_of(job->file)->synced, &job->file->fid);
	const struct waiter *waiter;

	if (job->cover <= known || job->gone)
		return false;
	for (uint32_t i = 0; i < stable->owner_count && job->tell; i++) {
		if (others_may_replay(stable, stable->owners[i].node_id, known))
			return true;
	}
	KR_LIST_FOR_EACH(waiter, &job->waiters, link) {
		if (others_may_replay(stable, waiter->node_id, known))
			return true;
	}
	return false;
}

/* ERR: nobody is told, and it is tried again. */
static void noted(void *context, int err)
{
	struct sync_job *job = context;

	if (err)
		job->err = err;
	if (!err && job->tell)
		tell_stable(job->file, job->cover);
	conclude(job);
}

/* What was replayed may be missing as well, and is not to be taken for applied by the next instance. */
static void loss_noted(void *context, int err)
{
	struct sync_job *job = context;

	(void)err; /* said */
	kr_stable_lost(job->file, job->err);
	conclude(job);
}

static void done(struct kr_pool_share_job *gated)
{
	struct sync_job *job = KR_CONTAINER_OF(gated, struct sync_job, gated);
	struct kr_sfile *file = job->file;
	struct kr_data *data = kr_data_of(file);

	data->counters.syncs++;
	if (job->err && !job->gone) {
		data->counters.sync_errors++;
		kr_log_error(
			"syncing a file failed: %s; its nodes send again what was applied since the last good sync",
			strerror(-job->err));
		kr_replayed_lose(&data->replayed, &file->fid, loss_noted, job);
	} else if (must_be_noted(job)) {
		kr_synced_note(&data->synced, &file->fid, job->cover, noted, job);
	} else {
		noted(job, 0);
	}
}

static void start(struct kr_sfile *file)
{
	struct kr_data *data = kr_data_of(file);
	struct kr_stable *stable = &file->data->stable;
	struct sync_job *job = kr_xcalloc(1, sizeof *job);
	struct kr_link *link;

	kr_list_init(&job->waiters);
	while ((link = kr_list_pop(&stable->waiters)))
		kr_list_append(&job->waiters, link);
	job->file = file;
	job->cover = stable->applied;
	job->data_only = !stable->full;
	job->tell = !kr_rounds_replaying(&file->data->rounds);
	stable->full = false;
	stable->running = true;
	stable->syncing = stable->first;
	stable->first = 0;
	kr_list_append(&data->in_sync, &stable->in_sync);
	kr_pool_share_start(&data->syncs, &job->gated, run, done);
}

/* Starts what is due, as far as syncs may run at once. */
static void pump(struct kr_data *data)
{
	uint64_t now = kr_clock_ns();

	while (data->syncs.running < data->syncs.limit) {
		struct kr_link *link = kr_list_pop(&data->sync_urgent);

		if (!link && !kr_list_empty(&data->sync_queue) &&
			file_of(data->sync_queue.head.next)->data->stable.due_ns <= now)
			link = kr_list_pop(&data->sync_queue);
		if (!link)
			break;
		start(file_of(link));
	}
	if (!kr_list_empty(&data->sync_queue) && !uv_is_closing((uv_handle_t *)&data->sync_timer)) {
		uint64_t due = file_of(data->sync_queue.head.next)->data->stable.due_ns;

		/* when all syncs are taken, the end of one pumps again */
		uv_timer_start(&data->sync_timer, on_timer,
			due > now ? (due - now) / KR_NS_PER_MS + 1 : KR_STABLE_DELAY_MS, 0);
	}
}

void kr_stable_hurry(struct kr_data *data)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&data->sync_queue))) {
		file_of(link)->data->stable.due_ns = 0;
		kr_list_append(&data->sync_urgent, link);
	}
	pump(data);
}

/* --- which rounds are not synced -------------------------------------------------------------- */

static uint64_t below(uint64_t floor, uint64_t round)
{
	return round ? KR_MIN(floor, round - 1) : floor;
}

static uint64_t below_queued(uint64_t floor, const struct kr_list *queue)
{
	const struct kr_stable *stable;

	KR_LIST_FOR_EACH(stable, queue, queued)
		floor = below(floor, stable->first);
	return floor;
}

uint64_t kr_stable_floor(const struct kr_data *data)
{
	uint64_t floor = below_queued(below_queued(data->last_round, &data->sync_queue), &data->sync_urgent);
	const struct kr_sfile_data *item;
	const struct kr_stable *stable;

	KR_LIST_FOR_EACH(stable, &data->in_sync, in_sync)
		floor = below(below(floor, stable->first), stable->syncing);
	KR_LIST_FOR_EACH(item, &data->busy, busy) {
		if (item->rounds.state != KR_ROUND_IDLE)
			floor = below(floor, item->rounds.round);
	}
	return floor;
}

/* --- rounds ----------------------------------------------------------------------------------- */

void kr_stable_applied(struct kr_sfile *file, const uint8_t node_id[16], uint64_t round)
{
	struct kr_stable *stable = &file->data->stable;

	if (memcmp(stable->writer, node_id, 16) != 0)
		stable->others_round = KR_MAX(stable->others_round, stable->writer_round);
	memcpy(stable->writer, node_id, 16);
	stable->writer_round = round;
	stable->first = stable->first ? KR_MIN(stable->first, round) : round;
	kr_stable_owe(file, node_id, round);
}

void kr_stable_owe(struct kr_sfile *file, const uint8_t node_id[16], uint64_t round)
{
	struct kr_stable *stable = &file->data->stable;
	uint32_t i;

	stable->applied = KR_MAX(stable->applied, round);
	for (i = 0; i < stable->owner_count; i++) {
		if (memcmp(stable->owners[i].node_id, node_id, 16) == 0)
			break;
	}
	if (i == stable->owner_capacity) {
		uint32_t capacity = i ? i * 2 : 2;
		struct kr_stable_owner *larger = kr_xcalloc(capacity, sizeof *larger);

		if (i)
			memcpy(larger, stable->owners, i * sizeof *larger);
		free(stable->owners);
		stable->owners = larger;
		stable->owner_capacity = capacity;
	}
	if (i == stable->owner_count)
		stable->owner_count++;
	stable->owners[i].round = round;
	memcpy(stable->owners[i].node_id, node_id, 16);
	enqueue(file, false);
}

void kr_stable_wait(
	struct kr_sfile *file, const uint8_t node_id[16], bool data_only, kr_stable_fn callback, void *context)
{
	struct waiter *waiter = kr_xcalloc(1, sizeof *waiter);

	memcpy(waiter->node_id, node_id, 16);
	waiter->callback = callback;
	waiter->context = context;
	kr_list_append(&file->data->stable.waiters, &waiter->link);
	if (!data_only)
		file->data->stable.full = true;
	enqueue(file, true);
}
