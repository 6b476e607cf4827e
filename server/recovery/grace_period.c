/* The beginning and the end of the grace period (session/grace.h).
 *
 * From then on others may get what a node that did not come back has held. If this server ended while that node's
 * record was still there, the next instance would take the node for one that has lost nothing. Its late bytes would
 * cover what others have written since (P7). So first the server removes the records, durably. Then it records that it
 * no longer waits for these nodes in this boot of the machine. Else the next instance would collect replays again, and
 * one that was refused here would cover what others have written since. Only then what waited goes on. What fails is
 * tried again with each tick when the time is over.
 */
#include "server/recovery/grace_period.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "server/base/state.h"
#include "server/export/export.h"
#include "server/flush/data.h"
#include "server/leases/file_table.h"
#include "server/session/request.h"
#include "server/session/session.h"

static void clear_up(struct kr_job *job)
{
	(void)kr_state_note_boot(job->server->state); /* in the first boot of all, or when nobody was waited for */
	kr_export_sweep_orphans(job->server->export);
}

static void free_job(struct kr_job *job)
{
	free(job);
}

/* Without a name, and nobody has claimed to have it open: only bytes for it are left in a journal. */
static bool note_gone(struct kr_table_link *link, void *context)
{
	struct kr_sfile *file = KR_CONTAINER_OF(link, struct kr_sfile, by_fid);

	(void)context;
	if (file->orphan && file->opens == 0)
		file->gone = true;
	return true;
}

/* What a former instance left behind and nobody has claimed goes. */
static void over(struct kr_server *server)
{
	kr_table_for_each(&server->files->by_fid, note_gone, NULL);
	kr_data_settled(server->data);
	kr_job_start(server, kr_xcalloc(1, sizeof(struct kr_job)), clear_up, free_job);
}

static void finish_grace(struct kr_server *server)
{
	struct kr_grace *grace = &server->sessions->grace;
	struct kr_link *link;

	grace->active = false;
	if (kr_grace_awaited(grace))
		kr_log_warn("the grace period is over; %zu nodes have not come back", kr_grace_awaited(grace));
	else
		kr_log_info("the grace period is over: all nodes are back");
	over(server);
	while ((link = kr_list_pop(&grace->waiting)))
		kr_request_dispatch(KR_LIST_ENTRY(link, struct kr_request, wait));
}

struct boot_note {
	struct kr_job job;
	int err;
};

static void run_boot_note(struct kr_job *job)
{
	KR_CONTAINER_OF(job, struct boot_note, job)->err = kr_state_note_boot(job->server->state);
}

static void boot_noted(struct kr_job *job)
{
	struct boot_note *note = KR_CONTAINER_OF(job, struct boot_note, job);
	struct kr_server *server = job->server;

	server->sessions->forgetting--;
	server->sessions->forget_failed |= note->err != 0;
	free(note);
	if (!server->sessions->forget_failed && !server->ended)
		finish_grace(server);
}

static void forgotten(void *context, int err)
{
	struct kr_server *server = context;
	struct boot_note *note;

	server->sessions->forget_failed |= err != 0;
	if (--server->sessions->forgetting || server->sessions->forget_failed || server->ended)
		return;
	if (!kr_state_facts(server->state)->new_boot) {
		finish_grace(server);
		return;
	}
	server->sessions->forgetting++;
	note = kr_xcalloc(1, sizeof(*note));
	kr_job_start(server, &note->job, run_boot_note, boot_noted);
}

/* Nodes that never came back are not waited for at the next start either. */
static void forget_awaited(struct kr_server *server)
{
	const struct kr_state_facts *facts = kr_state_facts(server->state);
	struct kr_lapse lapse = {.kind = KR_LAPSE_KNOWN, .epoch = server->files->epoch}, noted;
	struct kr_session *session;

	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (session->recovery.reclaiming && session->recovery.lapse.kind == KR_LAPSE_NONE) {
			session->recovery.lapse = lapse; /* what it has not reclaimed yet may go to others now */
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

static void end_grace(struct kr_server *server)
{
	if (!server->sessions->grace.active || server->sessions->forgetting || server->stopping)
		return; /* whose session ends with us is back in time at the next start */
	kr_data_collect_replays(server->data, false);
	if (kr_data_replaying(server->data))
		return; /* nobody may see the files before: we are called again when all is replayed */
	forget_awaited(server);
}

void kr_grace_period_start(struct kr_server *server)
{
	const struct kr_state_facts *facts = kr_state_facts(server->state);

	for (size_t i = 0; i < facts->node_count; i++)
		kr_grace_await(&server->sessions->grace, facts->nodes[i].id, &facts->nodes[i].owner);
	if (kr_grace_start(&server->sessions->grace, kr_clock_ns(), server->lease_ms)) {
		kr_log_info("%zu nodes had sessions before: waiting up to %u s for them to reclaim what they hold",
			kr_grace_awaited(&server->sessions->grace), server->lease_ms / 1000);
		kr_data_collect_replays(server->data, facts->new_boot);
		if (!facts->new_boot)
			kr_data_settled(server->data);
	} else {
		over(server);
	}
}

void kr_grace_period_register(struct kr_server *server)
{
	server->sessions->hooks.end_grace = end_grace;
}
