/* RECLAIM: a node names what it had open and leased in a session that it lost, or at an earlier instance of this
 * server.
 *
 * The server believes what the node says it had (but see reclaimable).  First it syncs those bytes of the node that
 * this instance remembers to have applied; the node then drops them.  late.h decides whether late bytes may go in.
 * What a former FLUSH may have applied beyond these is owed from the answer on (commit.h): no other node gets the file
 * before this node has sent it again.  Before the answer no other node can have the file either.  In the grace period
 * the server serves nobody, a successor inherits what its node owed, and a late node has the file alone.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "server/flush/commit.h"
#include "server/names/recall_permission.h"
#include "server/export/export.h"
#include "server/recovery/late.h"
#include "server/leases/leases.h"
#include "server/names/open.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/session/trust.h"
#include "server/names/names.h"

struct reclaim {
	struct kr_operation operation; /* first; this and the next one: for a late node that has bytes */
	struct kr_late_claim claim;
	struct kr_request *request;
	struct kr_sfile *file;
	struct kr_cred cred; /* the user that the session acts as, if any */
	struct kr_cred user; /* of a user key: its user; else without groups */
	uint32_t missing; /* opens that this session had not when the request came, and that the export has not yet */
	uint32_t held;    /* ... and has now: the session gets them with the answer */
	uint64_t changes;
	struct kr_attr attr;
	uint8_t rights;   /* of a confined session */
	uint64_t applied; /* what this instance remembers to have applied */
	bool contested, conflict;
};

static void free_reclaim(void *state)
{
	struct reclaim *reclaim = state;

	kr_late_claim_end(&reclaim->claim);
	kr_operation_end(&reclaim->operation);
	reclaim->file->opens += reclaim->held;
	kr_opens_release(reclaim->file, reclaim->held);
	kr_sfile_put(reclaim->file);
	free(reclaim);
}

/* The server believes what a session had open.  But only its node knows a user's opens: a user keeps the
 * leases of his own files, and of files that he could open now. */
static uint8_t reclaimable(const struct kr_request *request, const struct reclaim *reclaim)
{
	struct kr_export *export = request->server->export;
	const struct kr_cred *user = &reclaim->user;
	uint8_t rights = 0;

	if (user->group_count == 0 || user->uid == reclaim->attr.uid)
		return KR_OPEN_RIGHT_ALL;
	if (kr_export_access(export, user, &reclaim->file->fid, R_OK) == 0)
		rights |= KR_OPEN_RIGHT_READ;
	if (kr_export_access(export, user, &reclaim->file->fid, W_OK) == 0)
		rights |= KR_OPEN_RIGHT_WRITE;
	return rights;
}

static void run_reclaim(struct kr_request *request)
{
	struct reclaim *reclaim = request->state;
	const struct kr_fid *fid = &reclaim->file->fid;
	struct kr_export *export = request->server->export;

	if (reclaim->missing)
		request->err = kr_export_hold(export, fid, reclaim->missing);
	if (request->err)
		return;
	request->err = kr_export_getattr(export, fid, &reclaim->attr);
	if (request->err && reclaim->missing)
		kr_export_release(export, fid, reclaim->missing);
	if (!request->err)
		reclaim->rights = reclaimable(request, reclaim);
}

/* The session gets those opens that it lacks.  A node whose connection broke asks again, perhaps before the first
 * answer. */
static void take_opens(struct reclaim *reclaim, struct kr_attachment *attachment, uint32_t opens)
{
	uint32_t lacking = opens - KR_MIN(opens, attachment->opens), taken = KR_MIN(lacking, reclaim->held);

	attachment->opens += taken;
	reclaim->file->opens += reclaim->held;
	kr_opens_release(reclaim->file, reclaim->held - taken);
	reclaim->held = 0;
}

/* Judged bytes go in before those of nodes that have begun to wait meanwhile, and that will be later. */
static uint8_t take_leases(const struct reclaim *reclaim, struct kr_session *session, uint8_t kinds)
{
	return reclaim->operation.held ? kr_operation_leave(&reclaim->operation, session, kinds & KR_LEASE_ALL) :
					 kr_leases_try(reclaim->file, session, kinds);
}

/* The kinds that the node gets beside INHERITED, which it has.  While its bytes go in it excludes all other nodes, so
 * it needs both kinds.  Bytes that are unflushed at their recall go in first. */
static uint8_t kinds_for(const struct kr_request *request, uint8_t inherited)
{
	const struct reclaim *reclaim = request->state;
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;
	uint8_t kinds = msg->kinds & KR_LEASE_ALL;

	if (reclaim->conflict)
		return 0; /* its bytes leave the file */
	if (msg->last > request->reply.reclaim_reply.durable_seq)
		kinds |= reclaim->operation.held ? KR_LEASE_ALL : inherited;
	return kinds;
}

/* Of KINDS; a confined session has what its rights allow. */
static uint8_t allowed(const struct reclaim *reclaim, struct kr_session *session, uint8_t kinds)
{
	const struct kr_fid *fid = &reclaim->file->fid;

	if (!kr_trust_confined(session))
		return kinds;
	kr_open_rights_add(&session->trust.open_rights, fid, reclaim->rights);
	return kr_open_rights_leases(kinds, kr_open_rights_find(&session->trust.open_rights, fid));
}

/* Up to where the node sends its bytes again.  Bytes in conflict leave the file, and a user cannot keep others from a
 * file that he may not write. */
static uint64_t owed_of(const struct kr_request *request)
{
	const struct reclaim *reclaim = request->state;
	uint64_t resend = request->msg.reclaim_request.resend;

	return resend <= request->reply.reclaim_reply.durable_seq || reclaim->conflict ||
			!kr_open_rights_allowed(request->session, &reclaim->file->fid, KR_OPEN_RIGHT_WRITE) ?
		0 :
		resend;
}

/* The answer, when all that concerns it is on disk. */
static void finish_reclaim(struct kr_request *request)
{
	struct reclaim *reclaim = request->state;
	struct kr_sfile *file = kr_sfile_ref(reclaim->file);
	struct kr_session *session = kr_session_get(request->session);
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;
	struct kr_reclaim_reply *reply = &request->reply.reclaim_reply;
	struct kr_attachment *attachment;
	uint8_t inherited = kr_leases_inherited(file, session), granted, tried;

	if (request->err || session->dead) {
		kr_request_reply_job(request);
	} else {
		attachment = kr_attachment_get(file, session);
		take_opens(reclaim, attachment, msg->opens);
		file->orphan |= reclaim->attr.nlink == 0;
		if (msg->last)
			kr_cover_judged(&attachment->cover, reclaim->conflict);
		kr_lease_table_refused(&file->leases, session->node, attachment->cover.refused);
		granted = allowed(reclaim, session, kinds_for(request, inherited));
		kr_commit_owe(file, session, owed_of(request));
		tried = take_leases(reclaim, session, granted & (uint8_t)~inherited);
		granted = tried | (granted & inherited);
		kr_sfile_version(file, reclaim->changes, &reclaim->attr);
		reply->kinds = granted;
		reply->attr = reclaim->attr;
		reply->conflict = reclaim->conflict;
		kr_request_reply_job(request);
		if (tried)
			kr_leases_announced(file, session);
		kr_leases_settle(file, session, granted);
		attachment = kr_attachment_find(file, session);
		if (attachment)
			kr_attachment_settle(attachment);
	}
	kr_session_put(session);
	kr_sfile_put(file);
}

static void go_on(struct kr_request *request);

/* The request came in time.  Meanwhile its session has become late, or the grace period has ended: others can have
 * written. */
static bool has_become_late(const struct kr_request *request)
{
	const struct reclaim *reclaim = request->state;

	return !reclaim->operation.held && !reclaim->contested && !request->session->dead &&
		(kr_late_must_wait(request) || kr_late_has_bytes(request));
}

/* Whether the file was removed while no node had it open, and the node was not away: it has not heard of the removal, or
 * the removal came after the node had given a lease back with refused bytes. */
static bool may_discard(const struct kr_request *request)
{
	const struct reclaim *reclaim = request->state;

	return reclaim->file->gone && request->msg.reclaim_request.opens == 0 && !kr_late_was_away(request) &&
		!kr_late_is_declared(request);
}

static void reclaim_done(struct kr_request *request)
{
	struct reclaim *reclaim = request->state;

	if (!request->err) {
		reclaim->held += reclaim->missing;
		reclaim->missing = 0;
	}
	if (has_become_late(request)) {
		go_on(request);
		return;
	}
	if (request->err == -ESTALE && may_discard(request)) {
		request->err = 0;
		request->reply.reclaim_reply.durable_seq = request->msg.reclaim_request.last;
	}
	if ((!request->err || request->err == -ESTALE) && !request->session->dead)
		reclaim->conflict = kr_late_conflict(
			request, reclaim->file, request->err ? NULL : &reclaim->attr, reclaim->contested);
	if (reclaim->conflict)
		kr_late_declare(request, reclaim->file, reclaim->attr.ino, finish_reclaim);
	else
		finish_reclaim(request);
}

static void start_reclaim(struct kr_request *request)
{
	struct reclaim *reclaim = request->state;

	const struct kr_session *session = request->session;

	reclaim->changes = reclaim->file->changes;
	kr_trust_cred(
		request->server, session->trust.key, session->trust.groups, session->trust.group_count, &reclaim->user);
	kr_request_run(request, run_reclaim, reclaim_done);
}

static void reclaim_granted(struct kr_operation *operation)
{
	start_reclaim(KR_CONTAINER_OF(operation, struct reclaim, operation)->request);
}

/* No node may write, or go on reading older bytes, while the server finds out whether any node has written. */
static void claim(struct kr_request *request)
{
	struct reclaim *reclaim = request->state;

	reclaim->contested = kr_late_contested(request, reclaim->file);
	if (reclaim->contested) {
		start_reclaim(request);
		return;
	}
	kr_late_claim_begin(&reclaim->claim, request, reclaim->file);
	static_assert(offsetof(struct reclaim, operation) == 0, "for kr_operation_cancel");
	request->cancel = kr_operation_cancel;
	kr_operation_start(&reclaim->operation, reclaim->file, request->session->node, KR_LEASE_ALL,
		KR_COMMITTED_OTHERS, reclaim_granted);
}

static void go_on(struct kr_request *request)
{
	struct reclaim *reclaim = request->state;

	if (kr_late_must_wait(request))
		kr_request_wait_for_grace(request);
	else if (!kr_late_has_bytes(request))
		start_reclaim(request);
	else if (kr_trust_acts_as(request->session, &reclaim->cred))
		kr_recall_permission_check(request, reclaim->file, KR_LEASE_ALL, &reclaim->cred, false, claim);
	else
		claim(request);
}

static void synced(void *context, int err)
{
	struct kr_request *request = context;
	const struct reclaim *reclaim = request->state;

	if (request->session->dead) {
		kr_request_reply(request, -ENOTCONN, NULL, NULL, 0);
		return;
	}
	/* A sync that ran before may have failed, and then this one says nothing.  Nor do numbers tell of bytes that
	 * are in conflict: the node has flushed later ones without them. */
	if (!err && kr_commit_applied_seq(reclaim->file, request->session->node_id) >= reclaim->applied &&
		!kr_late_is_declared(request))
		request->reply.reclaim_reply.durable_seq = reclaim->applied;
	go_on(request);
}

/* Syncs the file, unless the node has heard that all its applied bytes are durable. */
static void sync_applied(struct kr_request *request)
{
	struct reclaim *reclaim = request->state;
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;

	request->cancel = NULL; /* the sync cannot be withdrawn */
	if (msg->last)
		reclaim->applied = kr_commit_applied_seq(reclaim->file, request->session->node_id);
	if (reclaim->applied && reclaim->applied >= msg->first)
		kr_commit_wait(reclaim->file, true, synced, request);
	else
		synced(request, 0);
}

static bool is_valid(const struct kr_reclaim_request *msg)
{
	return msg->opens <= KR_ATTACHMENT_OPENS_MAX && !(msg->kinds & ~(KR_LEASE_ALL | KR_RECLAIM_UNCOVERED)) &&
		msg->first <= msg->last && msg->last <= INT64_MAX && msg->resend <= msg->last;
}

static void handle_reclaim(struct kr_request *request)
{
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;
	struct reclaim *reclaim;
	struct kr_attachment *attachment;

	if (KR_FAULT("reclaim.cut") && request->session->conn)
		kr_conn_close(request->session->conn, false);
	if (request->state) { /* it was looked at before */
		go_on(request);
		return;
	}
	if (kr_late_must_wait(request)) {
		kr_request_wait_for_grace(request);
		return;
	}
	if (!is_valid(msg)) {
		kr_request_reply(request, -EINVAL, NULL, NULL, 0);
		return;
	}
	if (!kr_attachment_room(kr_sfile_find(request->server, &msg->file), request->session)) {
		kr_request_reply(request, -ENFILE, NULL, NULL, 0);
		return;
	}
	reclaim = kr_xcalloc(1, sizeof(*reclaim));
	reclaim->file = kr_sfile_get(request->server, &msg->file);
	attachment = kr_attachment_find(reclaim->file, request->session);
	if (!attachment || attachment->opens < msg->opens)
		reclaim->missing = msg->opens - (attachment ? attachment->opens : 0);
	reclaim->request = request;
	request->state = reclaim;
	request->free_state = free_reclaim;
	sync_applied(request);
}

void kr_reclaims_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_RECLAIM, handle_reclaim, KR_HANDLER_IN_GRACE | KR_HANDLER_KEEP_REPLY);
}
