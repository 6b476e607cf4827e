/* The flush room as a whole: its making, its hooks, its status (see data.h). */
#include "server/flush/data.h"

#include <sodium.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "server/flush/data_state.h"
#include "server/export/export.h"
#include "server/base/state.h"

enum { OVERLAPS_SHOWN = 100 };

/* --- the floor of what is known to be synced -------------------------------------------------- */

struct sync_all {
	struct kr_job job;
	uint64_t floor;
	int err;
};

static void run_sync_all(struct kr_job *job)
{
	KR_CONTAINER_OF(job, struct sync_all, job)->err = kr_state_sync_export(job->server->state);
}

static void all_synced(struct kr_job *job)
{
	struct sync_all *sync = KR_CONTAINER_OF(job, struct sync_all, job);
	struct kr_data *data = job->server->data;

	data->syncing_all = data->inherited = false;
	if (sync->err)
		kr_synced_lose(&data->synced, sync->floor);
	kr_synced_raise(&data->synced, sync->floor);
	free(sync);
}

/* No queue holds what a former instance of this boot has applied.  It may be much, and other programs' too.  So the
 * server puts this sync off while it writes few records for want of a floor. */
static void sync_all(struct kr_data *data, uint64_t floor)
{
	struct sync_all *sync = kr_xcalloc(1, sizeof *sync);

	data->syncing_all = true;
	sync->floor = floor;
	kr_job_start(data->server, &sync->job, run_sync_all, all_synced);
}

static void maybe_raise(struct kr_data *data, uint64_t now_ns)
{
	bool soon = data->inherited ?
		data->synced.lines > KR_DATA_NOTES_MANY :
		data->forgotten_round > data->synced.floor.round || data->synced.lines > KR_SYNCED_LOG;
	uint64_t after_ms = soon ? KR_DATA_RAISE_SOON_MS :
		data->inherited  ? KR_DATA_INHERITED_MS :
				   KR_DATA_RAISE_MS,
		 floor;

	if (!data->may_raise || data->syncing_all || data->stopping ||
		now_ns < data->raised_ns + after_ms * KR_NS_PER_MS)
		return;
	data->raised_ns = now_ns;
	floor = kr_stable_floor(data);
	if (data->inherited)
		sync_all(data, floor);
	else
		kr_synced_raise(&data->synced, floor);
}

void kr_data_settled(struct kr_data *data)
{
	data->may_raise = true;
}

enum kr_synced_verdict kr_data_judge_replays(
	struct kr_data *data, const uint8_t node_id[16], const struct kr_reclaim_request *claim)
{
	if (kr_data_applied_anew(data, &claim->file, node_id, claim->replay_last))
		return KR_SYNCED_ALL;
	return kr_synced_judge(&data->synced, &claim->file, claim->oldest, claim->newest);
}

bool kr_data_replayed_others(const struct kr_data *data, const struct kr_fid *file, const uint8_t node_id[16])
{
	return kr_replayed_others(&data->replayed, file, node_id) > 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *timer)
{
	struct kr_data *data = timer->data;
	uint64_t now_ns = kr_clock_ns();

	kr_flush_tick(data, now_ns);
	kr_stable_tick(data, now_ns);
	kr_replayed_tick(&data->replayed);
	data->hooks.tick(data);
	maybe_raise(data, now_ns);
	if (data->replaying && data->replays == 0) {
		data->replaying = false;
		data->server->sessions->hooks.end_grace(data->server);
	}
}

static void session_lost(struct kr_session *session)
{
	struct kr_data *data = session->server->data;

	data->hooks.close_ring(data, session->node);
	kr_flush_session_lost(data, session);
	data->hooks.session_lost(data, session);
}

static bool collecting_replays(const struct kr_server *server)
{
	return kr_data_collecting(server->data);
}

int kr_data_init(struct kr_server *server, struct kr_data **ret_data)
{
	struct kr_data *data = kr_xcalloc(1, sizeof *data);
	uint64_t last_round = server->instance << 40;
	int err, dir = kr_state_dir(server->state);

	kr_applied_init(&data->applied);
	err = kr_synced_open(&data->synced, server, dir, server->boot_id, last_round);
	if (!err)
		err = kr_replayed_open(&data->replayed, server, dir, server->boot_id, &data->applied);
	if (err) {
		kr_data_free(data);
		return err;
	}
	randombytes_buf(data->ring_key, sizeof data->ring_key);
	data->server = server;
	/* Numbers ascend over restarts without a record: the instance is their upper part. */
	data->last_round = data->forgotten_round = last_round;
	data->inherited = true;
	data->raised_ns = kr_clock_ns();
	kr_pool_share_init(&data->applies, server, KR_DATA_APPLIES);
	kr_pool_share_init(&data->feeds, server, KR_DATA_FEEDS);
	kr_list_init(&data->busy);
	kr_list_init(&data->pipelines);
	kr_list_init(&data->hops);
	kr_list_init(&data->throttled);
	kr_stable_init(data);
	uv_timer_init(server->loop, &data->tick);
	data->tick.data = data;
	uv_timer_start(&data->tick, on_tick, KR_DATA_TICK_MS, KR_DATA_TICK_MS);
	kr_flush_init(data);
	server->sessions->hooks.flushes_end = session_lost;
	server->sessions->hooks.collecting_replays = collecting_replays;
	kr_fsyncs_register(data);
	*ret_data = data;
	return 0;
}

void kr_data_stop(struct kr_data *data)
{
	data->stopping = true;
	kr_flush_stop(data);
	data->hooks.close_ring(data, 0);
	kr_stable_hurry(data);
	kr_replayed_give_up(&data->replayed);
}

bool kr_data_idle(const struct kr_data *data)
{
	return kr_flush_quiet(data) && kr_list_empty(&data->sync_queue) && kr_list_empty(&data->sync_urgent) &&
		data->syncs.running == 0 && !kr_synced_busy(&data->synced) && !kr_replayed_busy(&data->replayed) &&
		data->feeds.running == 0 && data->applies.running == 0 && kr_list_empty(&data->hops);
}

static void drop_files(struct kr_list *list, size_t link_offset)
{
	struct kr_link *link;

	while ((link = kr_list_pop(list)))
		kr_sfile_put(((struct kr_sfile_data *)(void *)((char *)link - link_offset))->file);
}

void kr_data_fini(struct kr_data *data)
{
	if (!data)
		return;
	data->hooks.close_ring(data, 0);
	data->hooks.end(data);
	drop_files(&data->sync_urgent, offsetof(struct kr_sfile_data, stable.queued));
	drop_files(&data->sync_queue, offsetof(struct kr_sfile_data, stable.queued));
	drop_files(&data->busy, offsetof(struct kr_sfile_data, busy));
	uv_close((uv_handle_t *)&data->tick, NULL);
	uv_close((uv_handle_t *)&data->gather_timer, NULL);
	uv_close((uv_handle_t *)&data->sync_timer, NULL);
}

void kr_data_free(struct kr_data *data)
{
	if (!data)
		return;
	kr_synced_close(&data->synced);
	kr_replayed_close(&data->replayed);
	kr_applied_fini(&data->applied);
	free(data);
}

uint64_t kr_data_forgotten(struct kr_data *data, const struct kr_fid *file, const uint8_t node_id[16])
{
	return kr_applied_forgotten(&data->applied, file, node_id);
}

void kr_data_reclaimed(struct kr_sfile *file, struct kr_session *session, uint64_t *ret_seq, uint64_t *ret_round,
	uint64_t *ret_forgotten)
{
	struct kr_data *data = kr_data_of(file);
	struct kr_applied_entry *entry = kr_applied_find(&data->applied, &file->fid, session->node_id);

	*ret_seq = *ret_round = 0;
	*ret_forgotten = kr_applied_forgotten(&data->applied, &file->fid, session->node_id);
	if (entry && entry->unstable_err) {
		/* the node sends again what it does not know to be applied */
		kr_stable_tell_again(file, session, entry);
		return;
	}
	if (entry && entry->seq) {
		*ret_seq = entry->seq;
		*ret_round = entry->round;
	}
	if (!data->collecting) {
		/* All that was applied before is in the next sync; the number is below that of a running round. */
		uint64_t below =
			file->data->rounds.state == KR_ROUND_IDLE ? data->last_round : file->data->rounds.round - 1;

		kr_stable_owe(file, session->node_id, below);
	}
}

void kr_data_collect_replays(struct kr_data *data, bool collecting)
{
	if (data->collecting == collecting)
		return;
	data->collecting = collecting;
	data->replaying = !collecting && data->replays > 0;
	kr_flush_update_hold(data);
}

bool kr_data_collecting(const struct kr_data *data)
{
	return data->collecting;
}

bool kr_data_replaying(const struct kr_data *data)
{
	return data->replaying;
}

void kr_data_mtime_set(struct kr_sfile *file, struct kr_time mtime)
{
	struct kr_sfile_data *data = file->data;

	data->mtime_rounds = (struct kr_time){.sec = INT64_MIN};
	data->mtime_kept = mtime;
	if (data->rounds.state != KR_ROUND_IDLE || data->again) {
		data->mtime_set = mtime;
		data->mtime_is_set = true;
	}
}

static bool note_overlap(struct kr_table_link *link, void *context)
{
	const struct kr_sfile *file = KR_CONTAINER_OF(link, struct kr_sfile, by_fid);
	json_t *list = context;

	if (file->data->overlapped)
		json_array_append_new(list,
			json_pack("{s:I, s:I}", "ino", (json_int_t)file->data->after.ino, "bytes",
				(json_int_t)file->data->overlapped));
	return json_array_size(list) < OVERLAPS_SHOWN;
}

/* The files whose writers wrote the same bytes. */
static json_t *overlaps(struct kr_server *server)
{
	json_t *list = json_array();

	kr_table_for_each(&server->files->by_fid, note_overlap, list);
	return list;
}

json_t *kr_data_status(const struct kr_data *data)
{
	struct kr_export_info info;
	size_t syncs_waiting = 0;
	struct kr_link *link;

	kr_export_info(data->server->export, &info);
	for (link = data->sync_queue.head.next; link != &data->sync_queue.head; link = link->next)
		syncs_waiting++;
	for (link = data->sync_urgent.head.next; link != &data->sync_urgent.head; link = link->next)
		syncs_waiting++;
	return json_pack(
		"{s:I, s:o, s:{s:I,s:I,s:I,s:I,s:I}, s:{s:I,s:I,s:I,s:I,s:I}, s:{s:I,s:I,s:I,s:I}, s:{s:I,s:I}}",
		"overlapped_bytes", (json_int_t)data->counters.overlapped, "overlapped_files", overlaps(data->server),
		"rounds", "inline", (json_int_t)data->counters.inline_rounds, "chained",
		(json_int_t)data->counters.chained_rounds, "participants_of_chained",
		(json_int_t)data->counters.chained_nodes, "aborted", (json_int_t)data->counters.aborted_rounds,
		"failed", (json_int_t)data->counters.failed_rounds, "writes", "number", (json_int_t)info.writes,
		"bytes", (json_int_t)info.write_bytes, "mean_bytes",
		(json_int_t)(info.writes ? info.write_bytes / info.writes : 0), "flushed_bytes",
		(json_int_t)data->counters.bytes, "flushed_extents", (json_int_t)data->counters.extents, "syncs",
		"number", (json_int_t)data->counters.syncs, "errors", (json_int_t)data->counters.sync_errors, "waiting",
		(json_int_t)syncs_waiting, "noted", (json_int_t)data->synced.writes, "feed", "blocks",
		(json_int_t)data->counters.fed_blocks, "bytes", (json_int_t)data->counters.fed_bytes);
}
