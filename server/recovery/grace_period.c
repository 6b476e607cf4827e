/* See grace_period.h. */
#include "server/recovery/grace_period.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "server/base/state.h"
#include "server/export/export.h"
#include "server/flush/commit.h"
#include "server/leases/file_table.h"
#include "server/recovery/executed_log.h"
#include "server/recovery/recovery.h"
#include "server/session/request.h"
#include "server/session/session.h"

static void clear_up(struct kr_job *job)
{
	kr_export_sweep_orphans(job->server->export);
}

static void free_job(struct kr_job *job)
{
	free(job);
}

/* Removes files of former instances that no node has claimed. */
static void over(struct kr_server *server)
{
	struct kr_sfile *file;

	/* A file that has no name, and that no node claims to have open, is gone: only a journal has bytes for it. */
	KR_TABLE_FOR_EACH(file, &server->files->by_fid, by_fid)
		if (file->orphan && file->opens == 0)
			file->gone = true;
	kr_executed_complete(server->recovery->executed);
	kr_job_start(server, kr_xcalloc(1, sizeof(struct kr_job)), clear_up, free_job);
}

static void finish_grace(struct kr_server *server)
{
	struct kr_grace *grace = &server->sessions->grace;
	struct kr_request *request;

	grace->active = false;
	if (kr_grace_awaited(grace))
		kr_log_warn("the grace period is over; %zu nodes have not come back", kr_grace_awaited(grace));
	else
		kr_log_info("the grace period is over: all nodes are back");
	over(server);
	while ((request = KR_LIST_POP(&grace->waiting, struct kr_request, wait)))
		kr_request_dispatch(request);
}

static void forgotten(void *context, int err)
{
	struct kr_server *server = context;

	server->sessions->forget_failed |= err != 0;
	if (--server->sessions->forgetting == 0 && !server->sessions->forget_failed && !server->ended)
		finish_grace(server);
}

/* Nodes that never came back are not waited for at the next start either. */
static void forget_awaited(struct kr_server *server)
{
	const struct kr_state_facts *facts = kr_state_facts(server->state);
	struct kr_lapse lapse = {.kind = KR_LAPSE_KNOWN, .epoch = server->files->epoch}, noted;
	struct kr_session *session;

	/* Other nodes may get files now that an awaited node has not reclaimed yet.  A node that reclaims again,
	 * because it was killed meanwhile, has inherited all its files. */
	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (session->recovery.reclaiming && session->recovery.lapse.kind == KR_LAPSE_NONE &&
			kr_grace_awaits(&server->sessions->grace, session->node_id, NULL)) {
			session->recovery.lapse = lapse;
			session->recovery.recorded = false;
		}
	}
	server->sessions->forget_failed = false;
	server->sessions->forgetting = 1;
	for (size_t i = 0; i < facts->node_count; i++) {
		const struct kr_state_node *node = &facts->nodes[i];

		session = kr_session_find_node_id(server, node->id);
		if (session && (session->recovery.recorded || session->recovery.recording))
			continue;
		lapse.owner = node->owner;
		if (!session && !kr_lapses_find(&server->sessions->lapses, node->id, &noted))
			kr_lapses_note(&server->sessions->lapses, node->id, &lapse);
		server->sessions->forgetting++;
		kr_state_forget_node(server, node->id, forgotten, server);
	}
	forgotten(server, 0);
}

/* A node of the former instance is connected and still sends RECLAIMs.  A client that replays a node's journal waits
 * for the end of the grace period. */
static bool somebody_reclaims(const struct kr_server *server)
{
	const struct kr_session *session;

	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (session->conn && session->recovery.reclaiming && !session->recovery.replay &&
			kr_grace_awaits(&server->sessions->grace, session->node_id, NULL))
			return true;
	}
	return false;
}

struct export_sync {
	struct kr_job job;
	int err;
};

static void run_sync(struct kr_job *job)
{
	KR_CONTAINER_OF(job, struct export_sync, job)->err = kr_state_sync_export(job->server->state);
}

static void synced(struct kr_job *job)
{
	struct export_sync *sync = KR_CONTAINER_OF(job, struct export_sync, job);
	struct kr_server *server = job->server;
	struct kr_grace *grace = &server->sessions->grace;

	grace->syncing = false;
	grace->unsynced = sync->err != 0;
	free(sync);
	if (!grace->unsynced)
		server->sessions->hooks.end_grace(server);
}

static void sync_export(struct kr_server *server)
{
	if (server->sessions->grace.syncing)
		return;
	server->sessions->grace.syncing = true;
	kr_job_start(server, kr_xcalloc(1, sizeof(struct export_sync)), run_sync, synced);
}

static void end_grace(struct kr_server *server)
{
	const struct kr_grace *grace = &server->sessions->grace;

	if (!grace->active || server->stopping || server->sessions->forgetting ||
		!kr_grace_due(grace, kr_clock_ns(), somebody_reclaims(server)))
		return; /* a node whose session ends with this instance is back in time at the next start */
	if (grace->unsynced)
		sync_export(server);
	else if (kr_commit_recovered(server->data))
		forget_awaited(server);
}

void kr_grace_period_start(struct kr_server *server)
{
	const struct kr_state_facts *facts = kr_state_facts(server->state);
	struct kr_grace *grace = &server->sessions->grace;

	for (size_t i = 0; i < facts->node_count; i++)
		kr_grace_await(grace, facts->nodes[i].id, &facts->nodes[i].owner);
	if (!kr_grace_start(grace, kr_clock_ns(), server->lease_ms, !facts->clean)) {
		over(server);
		return;
	}
	if (grace->unsynced)
		sync_export(server);
	kr_log_info("%zu nodes had sessions before: waiting up to %u s for them to reclaim what they hold",
		kr_grace_awaited(grace), server->lease_ms / 1000);
}

void kr_grace_period_register(struct kr_server *server)
{
	server->sessions->hooks.end_grace = end_grace;
}
