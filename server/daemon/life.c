/* Start, tick and end of the server: see life.h. */
#include "server/leases/slow_requests.h"
#include "server/daemon/life.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/leases/attrs.h"
#include "server/export/cred.h"
#include "server/flush/data.h"
#include "server/recovery/executed_log.h"
#include "server/session/expiry.h"
#include "server/export/export.h"
#include "server/base/fid_aliases.h"
#include "server/leases/file_table.h"
#include "server/session/hello.h"
#include "server/session/introduce.h"
#include "server/leases/leases.h"
#include "server/names/delayed_unlink.h"
#include "server/session/listen.h"
#include "server/leases/locks.h"
#include "server/names/name_sync.h"
#include "server/names/names.h"
#include "server/leases/invalidation.h"
#include "server/base/options.h"
#include "server/session/request.h"
#include "server/session/session.h"
#include "server/recovery/intent_recovery.h"
#include "server/pipelines/staging.h"
#include "server/base/state.h"
#include "server/flush/hop.h"
#include "server/pipelines/pipelines.h"
#include "server/recovery/grace_period.h"
#include "server/recovery/recovery.h"
#include "server/recovery/request_cache.h"
#include "server/session/trust.h"
#include "server/leases/watch.h"

enum { TICK_MS = 250, LATE_MS = 2000, EXPORT_TICK_MS = 1000 };

/* --- the tick --------------------------------------------------------------------------------- */

struct export_tick {
	struct kr_job job;
	int err;
};

static void tick_export(struct kr_job *job)
{
	struct export_tick *tick = KR_CONTAINER_OF(job, struct export_tick, job);

	tick->err = kr_export_tick(job->server->export);
}

static void export_ticked(struct kr_job *job)
{
	struct export_tick *tick = KR_CONTAINER_OF(job, struct export_tick, job);
	struct kr_server *server = job->server;

	server->daemon->ticking_export = false;
	if (tick->err && !server->export_lost) {
		kr_log_error("the export %s has vanished: programs on nodes get EIO until it is back "
			     "(restart kairand if it was replaced on purpose)",
			server->options->export_path);
		kr_invalidation_all_changed(server);
	} else if (!tick->err && server->export_lost) {
		kr_log_info("the export %s is back", server->options->export_path);
	}
	server->export_lost = tick->err != 0;
	free(tick);
}

static void maybe_tick_export(struct kr_server *server, uint64_t now_ns)
{
	struct export_tick *tick;

	if (server->daemon->ticking_export ||
		now_ns - server->daemon->export_ticked_ns < EXPORT_TICK_MS * KR_NS_PER_MS || server->stopping)
		return;
	server->daemon->ticking_export = true;
	server->daemon->export_ticked_ns = now_ns;
	tick = kr_xcalloc(1, sizeof(*tick));
	kr_job_start(server, &tick->job, tick_export, export_ticked);
}

static void extend_leases(struct kr_server *server, uint64_t now_ns)
{
	struct kr_session *session;

	server->woke_ns = now_ns;
	KR_LIST_FOR_EACH(session, &server->sessions->living, link)
		session->expiry.heard_ns = session->callbacks.delivered_ns = now_ns;
	if (server->sessions->grace.active)
		server->sessions->grace.ends_ns =
			KR_MAX(server->sessions->grace.ends_ns, now_ns + server->lease_ms * KR_NS_PER_MS / 2);
}

static void on_tick(uv_timer_t *timer)
{
	struct kr_server *server = timer->data;
	uint64_t now_ns = kr_clock_ns();

	/* The server slept (suspended machine, SIGSTOP).  It has not read yet what nodes sent meanwhile: no session is
	 * lost for that. */
	if (now_ns - server->daemon->ticked_ns > LATE_MS * KR_NS_PER_MS)
		extend_leases(server, now_ns);
	server->daemon->ticked_ns = now_ns;
	kr_expiry_tick(server, now_ns);
	server->sessions->hooks.end_grace(server); /* if it is due */
	kr_slow_requests_tick(server, now_ns);
	kr_delayed_unlink_tick(server, now_ns);
	kr_name_sync_tick(server, now_ns);
	kr_listen_tick(server, now_ns);
	kr_setbacks_tick(server);
	maybe_tick_export(server, now_ns);
}

/* --- start ------------------------------------------------------------------------------------ */

static void register_handlers(struct kr_server *server)
{
	kr_hello_register(server);
	kr_status_register(server);
	kr_names_register(server);
	kr_attrs_register(server);
	kr_setattr_register(server);
	kr_opens_register(server);
	kr_create_register(server);
	kr_reclaims_register(server);
	kr_file_space_register(server);
	kr_readdir_xattr_register(server);
	kr_lookups_register(server);
	kr_leases_register(server);
	kr_locks_register(server);
	kr_conflict_files_register(server);
	kr_restores_register(server);
	kr_staging_register(server);
}

/* Connections and files that are being read or written need the rest of what the process may open. */
static uint32_t descriptors_to_keep(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return KR_EXPORT_FDS;
	return (uint32_t)KR_MAX(1, KR_MIN(limit.rlim_cur / 4, (rlim_t)KR_EXPORT_FDS));
}

static int open_export(struct kr_server *server)
{
	struct kr_export_options options = {.path = server->options->export_path,
		.max_fds = descriptors_to_keep(),
		.read_only = server->options->read_only,
		.gateway = server->options->gateway,
		.server = server->export_id,
		.awaits = kr_state_facts(server->state)->node_count > 0};
	struct kr_export_info info;
	int err;

	err = kr_fid_aliases_open(kr_state_dir(server->state), &server->aliases);
	if (err)
		return err;
	options.aliases = server->aliases;
	memcpy(options.secret, kr_state_facts(server->state)->secret, sizeof(options.secret));
	err = kr_export_new(&options, &server->export);
	if (!err)
		err = kr_export_prune_aliases(server->export);
	if (err)
		return err;
	kr_export_info(server->export, &info);
	if (info.is_fuse)
		kr_log_warn(
			"the export is a FUSE filesystem: file identities are inode numbers, and after a restart files "
			"are found again by a walk through the export");
	else if (!info.by_handle)
		kr_log_warn("file identities are inode numbers, because file handles do not work here (%s; they need "
			    "CAP_DAC_READ_SEARCH "
			    "and a filesystem that has them): after a restart files are found again "
			    "by a walk through the export",
			strerror(-info.no_handles));
	if (!info.callers_ids)
		kr_log_warn("not started as root: all new files belong to this user, whoever makes them");
	if (info.read_only)
		kr_log_warn("the export cannot be written");
	return 0;
}

static int init_parts(struct kr_server *server)
{
	const struct kr_state_facts *facts;
	int err = kr_trust_init(server);

	if (!err)
		err = kr_state_open(
			server->options->state, server->options->export_path, server->options->gateway, &server->state);
	if (err)
		return err;
	facts = kr_state_facts(server->state);
	memcpy(server->boot_id, facts->boot_id, 16);
	memcpy(server->export_id, facts->export_id, 16);
	server->instance = facts->instance;
	err = kr_setbacks_open(&server->recovery->setbacks, kr_state_dir(server->state), facts->machine_id);
	if (!err)
		err = kr_executed_open(kr_state_dir(server->state), server->boot_id, &server->recovery->executed);
	if (!err)
		err = kr_conflicts_open(&server->recovery->conflicts, kr_state_dir(server->state));
	if (!err)
		err = open_export(server);
	if (!err)
		err = kr_doubts_open(&server->daemon->doubts, kr_state_dir(server->state),
			server->recovery->setbacks.former_ns, server->instance);
	if (!err)
		err = kr_setbacks_save(&server->recovery->setbacks, kr_state_dir(server->state), facts->machine_id);
	if (err)
		return err;
	kr_export_doubt_past(server->export, &server->daemon->doubts);
	kr_intent_recovery(server->recovery->executed, server->export);
	register_handlers(server);
	kr_introduce_init(server);
	kr_listen_init(server);
	err = kr_data_init(server, &server->data);
	if (!err)
		kr_pipelines_register(server->data);
	return err;
}

int kr_server_init(struct kr_server *server, uv_loop_t *loop, const struct kr_server_options *options)
{
	uint64_t real_ns;
	int err;

	memset(server, 0, sizeof(*server));
	server->loop = loop;
	server->options = options;
	server->lease_ms = (uint32_t)options->lease;
	server->daemon = kr_xcalloc(1, sizeof(*server->daemon));
	server->recovery = kr_xcalloc(1, sizeof(*server->recovery));
	kr_sessions_init(server);
	server->started_ns = server->daemon->ticked_ns = kr_clock_ns();
	real_ns = kr_clock_real_ns();
	server->recovery->started =
		(struct kr_time){.sec = (int64_t)(real_ns / KR_NS_PER_S), .nsec = (uint32_t)(real_ns % KR_NS_PER_S)};
	kr_files_init(server);
	kr_delayed_unlink_init(server);
	kr_name_sync_init(server);
	kr_invalidation_init(server);
	kr_locks_init(server);
	kr_slow_requests_init(server);
	kr_request_cache_register(server);
	kr_grace_period_register(server);
	err = init_parts(server);
	if (err) {
		kr_server_fini(server);
		return err;
	}
	uv_timer_init(loop, &server->daemon->tick);
	server->daemon->tick.data = server;
	uv_timer_start(&server->daemon->tick, on_tick, TICK_MS, TICK_MS);
	kr_watch_start(server, options->watch);
	if (options->watch == KR_WATCH_AUTO)
		kr_watch_names_start(server);
	else if (options->watch == KR_WATCH_NONE)
		kr_invalidation_allow(server, true);
	if (options->give_up) /* before the first job makes the pool's threads */
		kr_cred_give_up();
	kr_grace_period_start(server);
	return 0;
}

int kr_server_listen(struct kr_server *server)
{
	int err = kr_listen_start(server);

	return err ? err : kr_server_metrics_start(server);
}

/* --- end -------------------------------------------------------------------------------------- */

static void free_job(struct kr_job *job)
{
	free(job);
}

static void sync_export(struct kr_job *job)
{
	if (kr_state_sync_export(job->server->state))
		job->server->daemon->unsynced = true;
}

static void shut_down_cleanly(struct kr_job *job)
{
	if (!kr_state_shut_down_cleanly(job->server->state))
		job->server->daemon->unsynced = true;
}

bool kr_server_unsynced(const struct kr_server *server)
{
	return server->daemon->unsynced;
}

static void end_sessions(struct kr_server *server)
{
	server->ended = true;
	while (!kr_list_empty(&server->sessions->living))
		kr_session_end(
			KR_LIST_ENTRY(server->sessions->living.head.next, struct kr_session, link), KR_SESSION_STOPPED);
}

static void close_all(struct kr_server *server)
{
	kr_metrics_stop(server->daemon->metrics);
	kr_watch_stop(server);
	kr_watch_names_stop(server);
	kr_data_fini(server->data);
	uv_close((uv_handle_t *)&server->daemon->tick, NULL);
}

static bool export_is_fuse(const struct kr_server *server)
{
	struct kr_export_info info;

	kr_export_info(server->export, &info);
	return info.is_fuse;
}

static void on_stopping(uv_timer_t *timer)
{
	struct kr_server *server = timer->data;

	switch (kr_shutdown_next(&server->daemon->end, kr_clock_ns(), server->jobs, kr_data_idle(server->data))) {
	case KR_SHUTDOWN_WAIT:
		break;
	case KR_SHUTDOWN_END_SESSIONS:
		if (server->daemon->end.late)
			kr_log_warn("stopping although the disk has not finished: "
				    "nodes keep in their journals what is not synced");
		kr_delayed_unlink_end(server);
		end_sessions(server);
		break;
	case KR_SHUTDOWN_SYNC:
		/* A FUSE export has no syncfs to make up for a sync that is not over. */
		if (export_is_fuse(server) && !kr_data_idle(server->data))
			kr_state_not_clean(server->state);
		kr_job_start(server, kr_xcalloc(1, sizeof(struct kr_job)), shut_down_cleanly, free_job);
		break;
	case KR_SHUTDOWN_CLOSE:
		close_all(server);
		break;
	case KR_SHUTDOWN_GIVE_UP:
		kr_log_error("the disk does not answer: given up");
		_exit(EXIT_FAILURE); /* a thread that hangs in the kernel cannot be ended otherwise */
	}
}

void kr_server_stop(struct kr_server *server)
{
	struct kr_session *session;

	if (server->stopping)
		return;
	server->stopping = true;
	kr_locks_freeze(server);
	kr_listen_stop(server);
	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (session->conn)
			kr_conn_pause(session->conn); /* nothing new begins; what runs is finished and answered */
	}
	server->daemon->end.since_ns = kr_clock_ns();
	kr_data_stop(server->data);
	kr_job_start(server, kr_xcalloc(1, sizeof(struct kr_job)), sync_export, free_job);
	uv_timer_start(&server->daemon->tick, on_stopping, 10, 10);
}

void kr_server_fini(struct kr_server *server)
{
	kr_delayed_unlink_fini(server);
	kr_name_sync_fini(server);
	kr_staging_fini(server);
	kr_files_fini(server);
	kr_locks_fini(server);
	kr_invalidation_fini(server);
	kr_watch_free(server);
	kr_watch_names_free(server);
	if (server->data)
		kr_data_free(server->data);
	kr_listen_fini(server);
	kr_introduce_fini(server);
	kr_conflicts_close(&server->recovery->conflicts);
	kr_export_free(server->export);
	kr_fid_aliases_free(server->aliases);
	kr_executed_close(server->recovery->executed);
	free(server->recovery);
	kr_state_close(server->state);
	kr_trust_fini(server);
	kr_sessions_fini(server);
	free(server->daemon);
}
