/* CONFLICT: makes the file for a node's late bytes after the server has declared them in conflict (late.h), or finds
 * the file made before.
 *
 * The server makes one at a time.  So a request that comes twice, perhaps in two sessions, finds what the first one
 * made.  The search for the original may take long (export/conflict_make.c): the next request is that of the session
 * that has waited longest.  Loop thread; what blocks runs in the pool.
 */
#include "server/names/names.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "server/recovery/conflict_log.h"
#include "server/export/export.h"
#include "server/leases/file_table.h"
#include "server/names/open.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/recovery/recovery.h"
#include "server/session/session.h"
#include "server/session/trust.h"

struct making {
	struct kr_conflict *conflict;
	struct kr_cred cred;
	bool as_user;
	struct kr_fid root; /* a later HELLO may change that of the session */
	struct kr_conflict_made made;
};

static void free_making(void *state)
{
	struct making *making = state;

	kr_conflict_free(making->conflict);
	free(making->made.place);
	free(making);
}

static int record(void *context, const struct kr_fid *target)
{
	struct kr_request *request = context;
	struct kr_conflict *conflict = ((struct making *)request->state)->conflict;
	int err = KR_FAULT("conflict.record");

	conflict->target = *target;
	conflict->made = (struct kr_time){0}; /* its name will change it */
	if (!err)
		err = kr_conflicts_log(&request->server->recovery->conflicts, conflict);
	(void)KR_FAULT("conflict.recorded");
	return err;
}

/* The time in the file's name, for people: the node's if it is sane. */
static struct kr_time time_for_name(struct kr_time written)
{
	const int64_t now = kr_clock_real_s();

	return written.sec < 0 || written.sec > now ? (struct kr_time){.sec = now} : written;
}

static void run_making(struct kr_request *request)
{
	const struct kr_conflict_request *msg = &request->msg.conflict_request;
	struct making *making = request->state;
	struct kr_conflict *conflict = making->conflict;
	struct kr_conflict_make make = {.cred = making->as_user ? &making->cred : NULL,
		.file = &msg->file,
		.root = &making->root,
		.path = msg->path,
		.node = request->session->name,
		.written = time_for_name(msg->written),
		.mode = msg->mode,
		.uid = msg->uid,
		.gid = msg->gid,
		.record = record,
		.context = request};
	bool known = conflict->place != NULL;

	request->err = -ESTALE;
	if (conflict->target.length)
		request->err = kr_export_conflict_again(request->server->export, &conflict->target, &making->made);
	if (request->err == -ESTALE) {
		request->err = kr_export_conflict(request->server->export, &make, &making->made);
		conflict->made = making->made.attr.ctime;
	}
	if (request->err) {
		if (!conflict->complained) /* the node asks again and again */
			kr_log_error("no conflict file of %s for node %s can be made: %s",
				*msg->path ? msg->path : "a file", request->session->name, kr_fail_reason());
		conflict->complained = true;
		return;
	}
	(void)KR_FAULT("conflict.made");
	free(conflict->place);
	conflict->place = kr_xstrdup(making->made.place);
	if (!conflict->original && msg->path[0])
		conflict->original = kr_xstrdup(msg->path);
	if (kr_conflicts_log(&request->server->recovery->conflicts, conflict))
		kr_log_error("%s", kr_fail_reason()); /* its identity is recorded: only people miss its name */
	if (!known)
		kr_log_warn("late bytes of %s from node %s go to %s", msg->path[0] ? msg->path : "a file",
			request->session->name, conflict->place);
}

static void start_next(struct kr_server *server);

/* The export holds TARGET: now the session has it open. */
static void reply_made(struct kr_request *request, const struct kr_conflict_made *made)
{
	struct kr_conflict_reply reply = {.target = made->target, .attr = made->attr, .place = made->place};
	struct kr_sfile *file = kr_sfile_get(request->server, &made->target);

	reply.attr.version = 0;
	kr_opens_opened(request, file, KR_OPEN_WRITE, 0);
	kr_request_reply(request, 0, &reply, NULL, 0);
	kr_sfile_put(file);
}

static void made(struct kr_request *request)
{
	struct kr_server *server = request->server;
	struct making *making = request->state;

	server->recovery->making_conflict = false;
	if (request->err) {
		kr_request_reply_job(request);
	} else {
		kr_conflicts_put(&server->recovery->conflicts, kr_conflict_copy(making->conflict));
		reply_made(request, &making->made);
	}
	start_next(server);
}

static void start_making(struct kr_request *request, const struct kr_conflict *declared_before)
{
	const struct kr_conflict_request *msg = &request->msg.conflict_request;
	struct kr_session *session = request->session;
	struct making *making = kr_xcalloc(1, sizeof(*making));

	making->conflict = kr_conflict_copy(declared_before);
	making->conflict->last = KR_MAX(making->conflict->last, msg->last);
	making->root = session->root;
	making->as_user = kr_trust_acts_as(session, &making->cred);
	request->state = making;
	request->free_state = free_making;
	request->server->recovery->making_conflict = true;
	kr_request_run(request, run_making, made);
}

/* Takes the next request; the queue is not empty. */
static struct kr_request *take_next(struct kr_server *server)
{
	struct kr_request *next = KR_LIST_ENTRY(server->recovery->conflicts_asked.head.next, struct kr_request, wait),
			  *request;

	KR_LIST_FOR_EACH(request, &server->recovery->conflicts_asked, wait) {
		if (request->session->recovery.conflict_turn < next->session->recovery.conflict_turn)
			next = request;
	}
	kr_list_remove(&next->wait);
	next->session->recovery.conflict_turn = ++server->recovery->conflict_turn;
	return next;
}

static void start_next(struct kr_server *server)
{
	while (!server->recovery->making_conflict && !kr_list_empty(&server->recovery->conflicts_asked)) {
		struct kr_request *request = take_next(server);
		const struct kr_conflict_request *msg = &request->msg.conflict_request;
		const struct kr_conflict *conflict;

		request->cancel = NULL;
		conflict = kr_conflicts_find(
			&server->recovery->conflicts, request->session->node_id, &msg->file, msg->first, msg->last);
		if (conflict)
			start_making(request, conflict);
		else
			kr_request_reply(request, -EPERM, NULL, NULL, 0);
	}
}

static void leave_queue(struct kr_request *request)
{
	kr_list_remove(&request->wait);
}

static void handle_conflict(struct kr_request *request)
{
	const struct kr_conflict_request *msg = &request->msg.conflict_request;

	if (msg->first == 0 || msg->first > msg->last || msg->last > INT64_MAX) {
		kr_request_reply(request, -EINVAL, NULL, NULL, 0);
		return;
	}
	request->cancel = leave_queue;
	kr_list_append(&request->server->recovery->conflicts_asked, &request->wait);
	start_next(request->server);
}

void kr_conflict_files_register(struct kr_server *server)
{
	kr_list_init(&server->recovery->conflicts_asked);
	kr_server_on(server, KR_MSG_CONFLICT, handle_conflict, KR_HANDLER_KEEP_REPLY | KR_HANDLER_CHANGES_ALL);
}
