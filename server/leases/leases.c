/* Leases between the pure table (lease_table.h) and sessions: see leases.h. */
#include "server/leases/leases.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/leases/attrs.h"
#include "server/leases/invalidation.h"
#include "server/session/request.h"
#include "server/base/options.h"
#include "server/base/server.h"
#include "server/session/session.h"

/* A LEASE until it is answered. */
struct lease_ask {
	struct kr_lease_waiter waiter;
	struct kr_request *request;
	struct kr_sfile *file;
};

/* A RECALL until it is answered. */
struct recall {
	struct kr_sfile *file;
	uint8_t kinds;
	uint64_t number;
	uint64_t since_ns; /* when this session, or its predecessor, was asked */
};

static struct kr_attachment *attachment_of_node(const struct kr_sfile *file, uint32_t node)
{
	return KR_LIST_FIND(
		struct kr_attachment, attachment, &file->attachments, of_file, attachment->session->node == node);
}

/* The session has given KINDS up. */
static void settle(struct kr_sfile *file, struct kr_session *session, uint8_t kinds)
{
	struct kr_attachment *attachment = kr_attachment_find(file, session);

	if ((kinds & KR_LEASE_READ) && !(kr_lease_table_held(&file->leases, session->node) & KR_LEASE_READ)) {
		if (attachment)
			attachment->has_copy = false;
		file->server->files->hooks.read_lost(file, session);
	}
	if (attachment)
		kr_attachment_settle(attachment);
}

/* The session gives a lease back; no other node has it yet. */
static void give_up(struct kr_sfile *file, struct kr_session *session)
{
	struct kr_attachment *attachment = kr_attachment_find(file, session);

	if (!attachment)
		return;
	kr_cover_gave_up(&attachment->cover, file->server->files->epoch);
	if (attachment->cover.refused)
		file->server->files->hooks.writer_gave_up(file, session);
}

/* --- recalls ---------------------------------------------------------------------------------- */

/* A node that flushes, or waits for the server to apply its flush, may take its time.  The server ends stalled rounds
 * itself. */
static bool recall_worked_on(struct kr_session *session, const void *context, uint64_t *ret_since_ns)
{
	const struct recall *recall = context;
	const struct kr_attachment *attachment = kr_attachment_find(recall->file, session);

	*ret_since_ns = attachment ? attachment->flushed_ns : 0;
	return session->server->files->hooks.flush_asked(recall->file, session->node);
}

/* A session that ends without an answer passes the debt on to its successor. */
static void record_owed_reply(const struct recall *recall, struct kr_session *session)
{
	struct kr_attachment *attachment = kr_attachment_find(recall->file, session);
	uint64_t worked_ns = 0;

	if (attachment)
		attachment->owed_lease_ns = recall_worked_on(session, recall, &worked_ns) ?
			kr_clock_ns() :
			KR_MAX(recall->since_ns, worked_ns);
}

static void recall_answered(struct kr_session *session, void *context, int err, const void *reply)
{
	struct recall *recall = context;
	struct kr_sfile *file = recall->file;

	(void)reply;
	if (err && err != -ENOTCONN)
		kr_log_warn("node %s answers a recall with an error (%d): taken as given up", session->name, -err);
	if (err == -ENOTCONN) { /* the end of the session frees what it held */
		record_owed_reply(recall, session);
	} else {
		give_up(file, session);
		kr_lease_table_recalled(&file->leases, session->node, recall->kinds, recall->number);
		settle(file, session, recall->kinds);
	}
	free(recall);
	kr_sfile_put(file);
}

/* The flags beside the kinds. */
static uint8_t extra_flags(const struct kr_sfile *file, const struct kr_attachment *attachment)
{
	bool nameless = file->gone || file->orphan || file->vanished;

	if (!nameless || attachment->opens)
		return 0;
	return file->gone ? KR_RECALL_GONE | KR_RECALL_DISCARD : KR_RECALL_GONE;
}

static void on_recall(void *context, uint32_t node, uint8_t kinds, uint64_t number)
{
	struct kr_sfile *file = context;
	struct kr_attachment *attachment = attachment_of_node(file, node);
	struct kr_recall_request msg = {.file = file->fid, .kinds = kinds};
	struct recall *recall;

	if (!attachment)
		return; /* its session is just ending */
	msg.kinds |= extra_flags(file, attachment);
	recall = kr_xcalloc(1, sizeof(*recall));
	*recall = (struct recall){.file = kr_sfile_ref(file),
		.kinds = kinds,
		.number = number,
		.since_ns = attachment->owed_lease_ns ? attachment->owed_lease_ns : kr_clock_ns()};
	if (!kr_callback_send_long(attachment->session, KR_MSG_RECALL, &msg, recall_answered, recall_worked_on, recall,
		    recall->since_ns)) {
		free(recall);
		kr_sfile_put(file);
		return;
	}
	file->server->files->recalls++;
}

/* --- grants ----------------------------------------------------------------------------------- */

static void free_ask(void *state)
{
	struct lease_ask *ask = state;

	kr_sfile_put(ask->file);
	free(ask);
}

/* The grant goes out with the attributes that hold under it; from here on the server may recall it. */
static void tell_grant(struct kr_request *request, const struct kr_attr *attr)
{
	struct lease_ask *ask = request->state;
	struct kr_sfile *file = kr_sfile_ref(ask->file);
	struct kr_session *session = kr_session_get(request->session);
	struct kr_lease_reply reply = {0};
	uint8_t kinds = ask->waiter.kinds;
	int err = request->err;

	if (attr)
		reply.attr = *attr;
	kr_request_reply(request, err, &reply, NULL, 0);
	if (!session->dead) {
		kr_lease_table_announced(&file->leases, session->node);
		if (err) /* the node may hold some since before: it gives back what it does not hold */
			kr_lease_table_take_back(&file->leases, session->node, kinds);
		settle(file, session, 0);
	}
	kr_session_put(session);
	kr_sfile_put(file);
}

static void grant_ask(struct lease_ask *ask)
{
	struct kr_request *request = ask->request;
	struct kr_attachment *attachment = kr_attachment_find(ask->file, request->session);

	attachment->waiting--;
	request->cancel = NULL;
	request->server->files->granted++;
	kr_attrs_get(request, &ask->file->fid, false, tell_grant);
}

static void on_grant(void *context, struct kr_lease_waiter *waiter)
{
	(void)context;
	if (waiter->operation) {
		struct kr_operation *operation = KR_CONTAINER_OF(waiter, struct kr_operation, waiter);

		operation->held = true;
		operation->granted(operation);
	} else {
		grant_ask(KR_CONTAINER_OF(waiter, struct lease_ask, waiter));
	}
}

static void on_awaited(void *context, struct kr_lease_await *await)
{
	struct kr_readers_gone *gone = KR_CONTAINER_OF(await, struct kr_readers_gone, await);
	struct kr_sfile *file = gone->file;

	(void)context;
	gone->file = NULL;
	gone->happened(gone);
	kr_sfile_put(file);
}

static const struct kr_lease_actions actions = {on_grant, on_recall, on_awaited};

void kr_leases_file_init(struct kr_sfile *file)
{
	kr_lease_table_init(&file->leases, &actions, file);
}

/* The waiter may be granted in this call, and be gone then. */
static void ask_table(struct kr_sfile *file, struct kr_lease_waiter *waiter)
{
	kr_sfile_ref(file);
	kr_lease_table_ask(&file->leases, waiter);
	if (!kr_list_empty(&file->leases.waiting))
		file->server->files->hooks.awaited(file);
	kr_sfile_put(file);
}

/* --- the server's own operations -------------------------------------------------------------- */

void kr_operation_start(struct kr_operation *operation, struct kr_sfile *file, uint32_t node, uint8_t kinds,
	enum kr_lease_commitment commitment, void (*granted)(struct kr_operation *operation))
{
	*operation = (struct kr_operation){
		.waiter = {.node = node, .kinds = kinds, .operation = true, .commitment = commitment},
		.file = kr_sfile_ref(file),
		.granted = granted};
	kr_sfile_ref(file);
	ask_table(file, &operation->waiter);
	kr_sfile_put(file);
}

void kr_operation_end(struct kr_operation *operation)
{
	struct kr_sfile *file = operation->file;

	if (!file)
		return;
	operation->file = NULL;
	if (operation->held)
		kr_lease_table_end(&file->leases, &operation->waiter);
	else
		kr_lease_table_withdraw(&file->leases, &operation->waiter);
	operation->held = false;
	kr_sfile_put(file);
}

void kr_operation_cancel(struct kr_request *request)
{
	kr_operation_end(request->state);
}

uint8_t kr_operation_leave(const struct kr_operation *operation, struct kr_session *session, uint8_t kinds)
{
	if (!kinds || session->dead)
		return 0;
	kr_attachment_get(operation->file, session);
	return kr_lease_table_leave(&operation->file->leases, &operation->waiter, kinds);
}

void kr_readers_gone_start(struct kr_readers_gone *gone, struct kr_sfile *file, struct kr_session *session,
	void (*happened)(struct kr_readers_gone *gone))
{
	*gone = (struct kr_readers_gone){.happened = happened};
	if (kr_lease_table_await(&file->leases, session->node, &gone->await))
		happened(gone);
	else
		gone->file = kr_sfile_ref(file);
}

void kr_readers_gone_end(struct kr_readers_gone *gone)
{
	if (!gone->file)
		return;
	kr_list_remove(&gone->await.link);
	kr_sfile_put(gone->file);
	gone->file = NULL;
}

/* --- for OPEN and its like -------------------------------------------------------------------- */

uint8_t kr_leases_try(struct kr_sfile *file, struct kr_session *session, uint8_t kinds)
{
	kinds &= KR_LEASE_ALL;
	if (!kinds || session->dead)
		return 0;
	/* Other nodes cache attributes that hold while no node writes: the node must ask with LEASE. */
	if (kinds & KR_LEASE_WRITE && !(kr_lease_table_held(&file->leases, session->node) & KR_LEASE_WRITE) &&
		kr_invalidation_others_cache(file->server, &file->fid, session->node))
		kinds &= (uint8_t)~KR_LEASE_WRITE;
	if (!kinds)
		return 0;
	kr_attachment_get(file, session);
	kinds = kr_lease_table_try(&file->leases, session->node, kinds);
	file->server->files->granted += kinds != 0;
	return kinds;
}

void kr_leases_announced(struct kr_sfile *file, struct kr_session *session)
{
	if (!session->dead)
		kr_lease_table_announced(&file->leases, session->node);
}

/* --- changes by others ------------------------------------------------------------------------ */

void kr_leases_changed_behind(struct kr_sfile *file)
{
	kr_sfile_changing(file);
	kr_sfile_truncated(file);
	kr_sfile_changed(file);
	kr_lease_table_revoke(&file->leases, KR_LEASE_READ);
}

void kr_leases_gone(struct kr_sfile *file)
{
	const struct kr_recall_request open = {.file = file->fid, .kinds = KR_RECALL_GONE};
	const uint8_t kinds = file->gone ? KR_LEASE_ALL : KR_LEASE_READ;
	const struct kr_attachment *attachment;

	file->vanished = true;
	KR_LIST_FOR_EACH(attachment, &file->attachments, of_file) {
		if (attachment->opens == 0)
			kr_lease_table_take_back(&file->leases, attachment->session->node, kinds);
		else
			kr_callback_send(attachment->session, KR_MSG_RECALL, &open, NULL, NULL);
	}
	file->vanished = false; /* a local program may only have moved it, where files have no handles */
}

/* --- commitment ------------------------------------------------------------------------------- */

/* Whether nodes wait for bytes of FILE to be committed; not with --commit=never. */
static bool shares(const struct kr_sfile *file)
{
	return file->server->options->commit == KR_COMMIT_SHARE;
}

void kr_leases_uncommitted(struct kr_sfile *file, struct kr_session *session, uint64_t round)
{
	struct kr_attachment *attachment = kr_attachment_get(file, session);

	if (!kr_link_linked(&attachment->uncommitted))
		kr_list_append(&session->leases.uncommitted, &attachment->uncommitted);
	if (shares(file))
		kr_lease_table_uncommitted(&file->leases, session->node, round);
}

void kr_leases_uncommitted_of_ended(struct kr_sfile *file, uint64_t round)
{
	if (shares(file))
		kr_lease_table_uncommitted(&file->leases, 0, round);
}

void kr_leases_committed(struct kr_sfile *file, uint32_t node, uint64_t next)
{
	struct kr_attachment *attachment = node ? attachment_of_node(file, node) : NULL;

	if (attachment && !next)
		kr_list_remove(&attachment->uncommitted);
	kr_lease_table_committed(&file->leases, node, next);
	attachment = node ? attachment_of_node(file, node) : NULL;
	if (attachment)
		kr_attachment_settle(attachment);
}

/* --- inheritance ------------------------------------------------------------------------------ */

void kr_leases_inherit(struct kr_sfile *file, struct kr_session *session, struct kr_session *successor)
{
	uint8_t held = kr_lease_table_held(&file->leases, session->node);

	if (held & KR_LEASE_WRITE)
		kr_attachment_get(file, successor)->inherited = held;
	kr_lease_table_inherit(&file->leases, session->node, successor->node);
}

uint8_t kr_leases_inherited(const struct kr_sfile *file, const struct kr_session *session)
{
	const struct kr_attachment *attachment = kr_attachment_find(file, session);

	return attachment ? attachment->inherited : 0;
}

void kr_leases_settle(struct kr_sfile *file, struct kr_session *session, uint8_t kinds)
{
	struct kr_attachment *attachment = kr_attachment_find(file, session);
	uint8_t given_up;

	if (!attachment || !attachment->inherited)
		return;
	given_up = attachment->inherited & (uint8_t)~kinds;
	attachment->inherited = 0;
	if (given_up)
		kr_lease_table_release(&file->leases, session->node, given_up);
	kr_lease_table_announced(&file->leases, session->node);
	attachment->owed_lease_ns = 0; /* the node has been asked again, or no node waits any more */
	settle(file, session, given_up);
}

static void disclaim_inherited(struct kr_session *session)
{
	struct kr_attachment *attachment, *next;

	KR_LIST_FOR_EACH_SAFE(attachment, next, &session->leases.attachments, of_session) {
		struct kr_sfile *file = attachment->file;

		kr_sfile_ref(file);
		if (kr_link_linked(&attachment->uncommitted))
			file->server->files->hooks.writer_reclaimed(file, session);
		kr_leases_settle(file, session, 0);
		kr_sfile_put(file);
	}
}

/* --- handlers --------------------------------------------------------------------------------- */

static void cancel_lease(struct kr_request *request)
{
	struct lease_ask *ask = request->state;
	struct kr_attachment *attachment = kr_attachment_find(ask->file, request->session);

	attachment->waiting--;
	kr_lease_table_withdraw(&ask->file->leases, &ask->waiter);
	attachment = kr_attachment_find(ask->file, request->session);
	if (attachment)
		kr_attachment_settle(attachment);
}

static void handle_lease(struct kr_request *request)
{
	const struct kr_lease_request *msg = &request->msg.lease_request;
	struct lease_ask *ask;

	if (msg->kinds == 0 || (msg->kinds & ~KR_LEASE_ALL)) {
		kr_request_reply(request, -EINVAL, NULL, NULL, 0);
		return;
	}
	if (!kr_open_rights_allow(
		    request, &msg->file, msg->kinds & KR_LEASE_WRITE ? KR_OPEN_RIGHT_WRITE : KR_OPEN_RIGHT_ALL))
		return;
	if (!kr_attachment_room(kr_sfile_find(request->server, &msg->file), request->session)) {
		kr_request_reply(request, -ENFILE, NULL, NULL, 0);
		return;
	}
	ask = kr_xcalloc(1, sizeof(*ask));
	ask->request = request;
	ask->file = kr_sfile_get(request->server, &msg->file);
	ask->waiter.node = request->session->node;
	ask->waiter.kinds = msg->kinds;
	request->state = ask;
	request->free_state = free_ask;
	request->cancel = cancel_lease;
	kr_attachment_get(ask->file, request->session)->waiting++;
	ask_table(ask->file, &ask->waiter);
}

static void handle_return(struct kr_request *request)
{
	const struct kr_return_request *msg = &request->msg.return_request;
	struct kr_sfile *file = kr_sfile_find(request->server, &msg->file);
	struct kr_session *session = kr_session_get(request->session);
	uint8_t kinds = msg->kinds & KR_LEASE_ALL;

	if (file)
		kr_sfile_ref(file);
	kr_request_reply(request, 0, NULL, NULL, 0);
	if (file) {
		give_up(file, session);
		kr_lease_table_release(&file->leases, session->node, kinds);
		settle(file, session, kinds);
		kr_sfile_put(file);
	}
	kr_session_put(session);
}

/* The unflushed bytes of the holder of WRITE count as written. */
static void lease_changes(struct kr_request *request)
{
	if (request->msg.lease_request.kinds & KR_LEASE_WRITE)
		kr_invalidation_change(request, &request->msg.lease_request.file);
}

void kr_leases_register(struct kr_server *server)
{
	server->sessions->hooks.reclaimed = disclaim_inherited;
	kr_server_on(server, KR_MSG_LEASE, handle_lease, 0);
	kr_server_on(server, KR_MSG_RETURN, handle_return, KR_HANDLER_IN_GRACE | KR_HANDLER_KEEP_REPLY);
	kr_invalidation_on(server, KR_MSG_LEASE, lease_changes, NULL);
}
