/* The flush room as a whole: its making, its hooks, its status (see data.h). */
#include "server/flush/data.h"

#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/verbs/verbs.h"
#include "server/flush/data_state.h"
#include "server/flush/hop.h"
#include "server/export/export.h"
#include "server/base/options.h"

/* POOL: registered with RDMA devices, if there are any; for 128 ring connections that receive. */
enum { OVERLAPS_SHOWN = 100, POOL = 256 << 20 };

/* --- the whole -------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *timer)
{
	struct kr_data *data = timer->data;
	uint64_t now_ns = kr_clock_ns();

	kr_flush_tick(data, now_ns);
	kr_commit_tick(data, now_ns);
	data->hooks.tick(data);
}

static void session_lost(struct kr_session *session)
{
	struct kr_data *data = session->server->data;

	data->hooks.close_ring(data, session->node);
	kr_flush_session_lost(data, session);
	data->hooks.session_lost(data, session);
}

int kr_data_init(struct kr_server *server, struct kr_data **ret_data)
{
	struct kr_data *data = kr_xcalloc(1, sizeof *data);
	int err;

	*ret_data = data;
	data->server = server;
	randombytes_buf(data->ring_key, sizeof data->ring_key);
	/* Numbers ascend over restarts without a record: the instance is their upper part. */
	data->last_round = server->instance << 40;
	kr_applied_init(&data->applied);
	kr_pool_share_init(&data->applies, server, KR_DATA_APPLIES);
	kr_pool_share_init(&data->feeds, server, KR_DATA_FEEDS);
	kr_list_init(&data->busy);
	kr_list_init(&data->pipelines);
	kr_list_init(&data->hops);
	kr_list_init(&data->throttled);
	kr_flush_init(data);
	uv_timer_init(server->loop, &data->tick);
	data->tick.data = data;
	uv_timer_start(&data->tick, on_tick, KR_DATA_TICK_MS, KR_DATA_TICK_MS);
	server->sessions->hooks.flushes_end = session_lost;
	kr_fsyncs_register(data);
	err = kr_commit_init(data);
	return err ? err :
		     kr_verbs_new(server->loop, (enum kr_transport)server->options->transport, POOL, &data->verbs);
}

void kr_data_stop(struct kr_data *data)
{
	data->stopping = true;
	kr_flush_stop(data);
	data->hooks.close_ring(data, 0);
}

bool kr_data_idle(const struct kr_data *data)
{
	return kr_flush_quiet(data) && kr_commit_idle(data) && data->feeds.running == 0 && data->applies.running == 0 &&
		kr_list_empty(&data->hops);
}

void kr_data_fini(struct kr_data *data)
{
	struct kr_sfile_data *file_data;

	if (!data)
		return;
	data->hooks.close_ring(data, 0);
	data->hooks.end(data);
	kr_verbs_close(data->verbs);
	kr_commit_fini(data);
	while ((file_data = KR_LIST_POP(&data->busy, struct kr_sfile_data, busy)))
		kr_sfile_put(file_data->file);
	uv_close((uv_handle_t *)&data->tick, NULL);
	uv_close((uv_handle_t *)&data->gather_timer, NULL);
}

void kr_data_free(struct kr_data *data)
{
	if (!data)
		return;
	if (data->syncs.syncfs_fd > 0)
		close(data->syncs.syncfs_fd);
	kr_failed_syncs_close(&data->syncs.failed_log);
	kr_applied_fini(&data->applied);
	kr_verbs_free(data->verbs);
	free(data);
}

void kr_data_mtime_set(struct kr_sfile *file, struct kr_time mtime)
{
	struct kr_sfile_data *data = file->data;

	data->mtime_rounds = (struct kr_time){.sec = INT64_MIN};
	if (data->rounds.state != KR_ROUND_IDLE) {
		data->mtime_set = mtime;
		data->mtime_is_set = true;
	}
}

json_t *kr_data_overlaps(const struct kr_data *data)
{
	json_t *list = json_array();
	const struct kr_sfile *file;

	KR_TABLE_FOR_EACH(file, &data->server->files->by_fid, by_fid) {
		if (json_array_size(list) == OVERLAPS_SHOWN)
			break;
		if (file->data->overlapped)
			json_array_append_new(list,
				json_pack("{s:I, s:I}", "ino", (json_int_t)file->data->after.ino, "bytes",
					(json_int_t)file->data->overlapped));
	}
	return list;
}

static size_t count_writing(const struct kr_data *data)
{
	const struct kr_link *link;
	size_t count = 0;

	for (link = data->writing.head.next; link != &data->writing.head; link = link->next)
		count++;
	return count;
}

json_t *kr_data_hops(const struct kr_data *data)
{
	json_t *list = json_array();
	const struct kr_hop *hop;

	KR_LIST_FOR_EACH(hop, &data->hops, link)
		json_array_append_new(list,
			json_pack("{s:I, s:s, s:s, s:I}", "node", (json_int_t)hop->node, "peer",
				kr_conn_peer(hop->conn), "transport", kr_conn_transport(hop->conn), "verbs_bytes",
				(json_int_t)kr_conn_carried_bytes(hop->conn)));
	return list;
}

json_t *kr_data_status(const struct kr_data *data)
{
	struct kr_export_info info;

	kr_export_info(data->server->export, &info);
	return json_pack(
		"{s:s, s:I, s:{s:I,s:I,s:I,s:I,s:I}, s:{s:I,s:I,s:I,s:I,s:I}, s:{s:I,s:I,s:I,s:I}, s:{s:I,s:I}, s:I}",
		"commit", data->server->options->commit == KR_COMMIT_SHARE ? "share" : "never", "overlapped_bytes",
		(json_int_t)data->counters.overlapped, "rounds", "inline", (json_int_t)data->counters.inline_rounds,
		"chained", (json_int_t)data->counters.chained_rounds, "participants_of_chained",
		(json_int_t)data->counters.chained_nodes, "aborted", (json_int_t)data->counters.aborted_rounds,
		"failed", (json_int_t)data->counters.failed_rounds, "writes", "number", (json_int_t)info.writes,
		"bytes", (json_int_t)info.write_bytes, "mean_bytes",
		(json_int_t)(info.writes ? info.write_bytes / info.writes : 0), "flushed_bytes",
		(json_int_t)data->counters.bytes, "flushed_extents", (json_int_t)data->counters.extents, "syncs",
		"number", (json_int_t)data->counters.syncs, "errors", (json_int_t)data->counters.sync_errors, "waiting",
		(json_int_t)data->syncs.queued, "failed_files", (json_int_t)data->syncs.failed_log.files.count, "feed",
		"blocks", (json_int_t)data->counters.fed_blocks, "bytes", (json_int_t)data->counters.fed_bytes,
		"uncommitted_files", (json_int_t)count_writing(data));
}
