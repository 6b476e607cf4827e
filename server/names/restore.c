/* RESTORE: makes a file anew that a loss of this server's power un-created (export/restore.c), before its node reclaims
 * it.
 *
 * Only an awaited node that is not late may do that: no other client is served meanwhile, and no other node has been
 * told of the file's name (name_commits.h).  A session that cannot act as any user may not: it could take the identity
 * of a file that its user must not see.  One request at a time, so a directory is there before what is in it.  Loop
 * thread; what blocks runs in the pool. */
#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/base/server.h"
#include "server/export/export.h"
#include "server/names/names.h"
#include "server/recovery/recovery.h"
#include "server/session/request.h"
#include "server/session/session.h"
#include "server/session/trust.h"

struct restore {
	bool made;
};

static void run_restore(struct kr_request *request)
{
	const struct kr_restore_request *msg = &request->msg.restore_request;
	const struct kr_restore restore = {.file = &msg->file,
		.parent = &msg->parent,
		.name = msg->name,
		.mode = msg->mode,
		.uid = msg->uid,
		.gid = msg->gid,
		.made = msg->made};

	request->err = kr_export_restore(request->server->export, &restore, &((struct restore *)request->state)->made);
	if (request->err)
		kr_log_warn("a new file of node %s, '%s', is not there any more, and is not made anew: %s",
			request->session->name, msg->name, kr_fail_reason());
}

static bool is_allowed(const struct kr_request *request)
{
	const struct kr_session *session = request->session;

	return request->server->sessions->grace.active && session->recovery.reclaiming &&
		session->recovery.lapse.kind == KR_LAPSE_NONE && !kr_trust_confined(session);
}

static void start_next(struct kr_server *server);

static void restored(struct kr_request *request)
{
	struct kr_server *server = request->server;

	server->recovery->restoring = false;
	server->recovery->restored += ((const struct restore *)request->state)->made;
	kr_request_reply_job(request);
	start_next(server);
	if (server->recovery->restoring || !server->recovery->restored)
		return;
	kr_log_info("made %zu new files and directories anew that were not there any more after this start",
		server->recovery->restored);
	server->recovery->restored = 0;
}

static void start_next(struct kr_server *server)
{
	struct kr_list *asked = &server->recovery->restores_asked;
	struct kr_request *request;

	while (!server->recovery->restoring && (request = KR_LIST_POP(asked, struct kr_request, wait))) {
		request->cancel = NULL;
		if (is_allowed(request)) {
			server->recovery->restoring = true;
			kr_request_run(request, run_restore, restored);
		} else {
			kr_request_reply(request, -EPERM, NULL, NULL, 0);
		}
	}
}

static void leave_queue(struct kr_request *request)
{
	kr_list_remove(&request->wait);
}

static void handle_restore(struct kr_request *request)
{
	request->state = kr_xcalloc(1, sizeof(struct restore));
	request->free_state = free;
	request->cancel = leave_queue;
	kr_list_append(&request->server->recovery->restores_asked, &request->wait);
	start_next(request->server);
}

void kr_restores_register(struct kr_server *server)
{
	kr_list_init(&server->recovery->restores_asked);
	kr_server_on(server, KR_MSG_RESTORE, handle_restore, KR_HANDLER_IN_GRACE);
}
