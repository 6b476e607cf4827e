/* STAGE: the server asks every node of the ring to PREFETCH the file, and adds their answers up (see staging.h).
 *
 * Nothing is kept between two STAGEs of a file.  A node answers PREFETCH within the time that STAGE allows, with what
 * it has by then, and goes on by itself.  So nothing is left when the program does not ask again.
 *
 * One STAGE is a callback to every node.  So a session has at most KR_SESSION_PREFETCHES of them, and all sessions
 * KR_SERVER_PREFETCHES, give or take one STAGE.  Other STAGEs wait; next comes the session that has waited longest.
 */
#include "server/pipelines/staging.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/session/open_rights.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/session/trust.h"

struct staging {
	struct kr_request *request;
	struct kr_list asks; /* unanswered */
	struct kr_stage_reply reply;
	char node[256]; /* reply.node: the first that failed */
};

struct stage_request {
	struct kr_link link;
	struct staging *staging;
	struct kr_session *session; /* lives while its callback is unanswered */
	uint64_t ask;
};

static void add_failure(struct staging *staging, const struct kr_session *session, int err)
{
	if (staging->reply.failed++)
		return;
	staging->reply.error = kr_status_from_errno(err);
	snprintf(staging->node, sizeof(staging->node), "%s", session->name);
}

static void add_answer(
	struct staging *staging, const struct kr_session *session, const struct kr_prefetch_reply *answer)
{
	struct kr_stage_reply *reply = &staging->reply;

	if (answer->size > answer->room)
		add_failure(staging, session, -EFBIG);
	reply->done += answer->done != 0;
	reply->size = KR_MAX(reply->size, answer->size);
	reply->bytes += KR_MIN(answer->bytes, answer->size);
	reply->room = KR_MIN(reply->room, answer->room);
}

static void start_next(struct kr_server *server);

static void end(struct staging *staging)
{
	struct kr_server *server = staging->request->server;

	staging->reply.node = staging->node;
	staging->request->cancel = NULL;
	kr_request_reply(staging->request, 0, &staging->reply, NULL, 0);
	start_next(server);
}

static void forget_ask(struct stage_request *ask)
{
	struct kr_session *asker = ask->staging->request->session;

	kr_list_remove(&ask->link);
	asker->staging.asked--;
	asker->server->staging->prefetches--;
	free(ask);
}

static void brought(struct kr_session *session, void *context, int err, const void *message)
{
	struct stage_request *ask = context;
	struct staging *staging = ask->staging;

	forget_ask(ask);
	if (err)
		add_failure(staging, session, err);
	else
		add_answer(staging, session, message);
	if (kr_list_empty(&staging->asks))
		end(staging);
}

static void cancel(struct kr_request *request)
{
	struct staging *staging = request->state;
	struct stage_request *ask, *after;

	KR_LIST_FOR_EACH_SAFE(ask, after, &staging->asks, link) {
		kr_callback_abandon(ask->session, ask->ask, request->session);
		forget_ask(ask);
	}
	start_next(request->server);
}

/* Nodes of a ring trust each other; a user's node stands alone. */
static bool takes_part(const struct kr_session *session, const struct kr_session *asker)
{
	if (session == asker)
		return true;
	return !kr_trust_is_user(asker) && !kr_trust_is_user(session) && session->ring.port && !session->dead &&
		strcmp(session->ring.name, asker->ring.name) == 0;
}

static void ask_to_bring(struct staging *staging, struct kr_session *session, const struct kr_prefetch_request *msg)
{
	struct stage_request *ask = kr_xcalloc(1, sizeof(*ask));

	/* The node prefetches for the user who has the file open at the asking node. */
	if (kr_trust_confined(session))
		kr_open_rights_add(&session->trust.open_rights, &msg->file, KR_OPEN_RIGHT_READ);
	ask->staging = staging;
	ask->session = session;
	ask->ask = kr_callback_send(session, KR_MSG_PREFETCH, msg, brought, ask);
	if (!ask->ask) {
		free(ask);
		return;
	}
	staging->reply.nodes++;
	staging->request->session->staging.asked++;
	session->server->staging->prefetches++;
	kr_list_append(&staging->asks, &ask->link);
}

static void leave_queue(struct kr_request *request)
{
	kr_list_remove(&request->wait);
	request->server->staging->waiting--;
}

static void start(struct kr_request *request)
{
	const struct kr_stage_request *msg = &request->msg.stage_request;
	struct kr_prefetch_request stage_request = {
		.file = msg->file, .ms = KR_MIN(msg->ms, request->server->lease_ms / 4)};
	struct kr_session *session;
	struct staging *staging = kr_xcalloc(1, sizeof(*staging));

	staging->request = request;
	staging->reply.room = UINT64_MAX;
	kr_list_init(&staging->asks);
	request->state = staging;
	request->free_state = free;
	KR_LIST_FOR_EACH(session, &request->server->sessions->living, link) {
		if (takes_part(session, request->session))
			ask_to_bring(staging, session, &stage_request);
	}
	request->cancel = cancel;
	if (kr_list_empty(&staging->asks))
		end(staging);
}

/* The session whose STAGE comes next; NULL: none waits. */
static struct kr_session *next_session(const struct kr_server *server)
{
	struct kr_session *session, *next = NULL;

	KR_LIST_FOR_EACH(session, &server->sessions->living, link) {
		if (kr_list_empty(&session->staging.waiting) || session->staging.asked >= KR_SESSION_PREFETCHES)
			continue;
		if (!next || session->staging.turn < next->staging.turn)
			next = session;
	}
	return next;
}

static void start_next(struct kr_server *server)
{
	struct kr_session *session;

	while (server->staging->waiting && server->staging->prefetches < KR_SERVER_PREFETCHES &&
		(session = next_session(server))) {
		struct kr_request *request = KR_LIST_ENTRY(session->staging.waiting.head.next, struct kr_request, wait);

		leave_queue(request);
		session->staging.turn = ++server->staging->turn;
		start(request);
	}
}

static void handle_stage(struct kr_request *request)
{
	if (!kr_open_rights_allow(request, &request->msg.stage_request.file, KR_OPEN_RIGHT_READ))
		return;
	request->cancel = leave_queue;
	kr_list_append(&request->session->staging.waiting, &request->wait);
	request->server->staging->waiting++;
	start_next(request->server);
}

void kr_staging_fini(struct kr_server *server)
{
	free(server->staging);
}

void kr_staging_register(struct kr_server *server)
{
	server->staging = kr_xcalloc(1, sizeof(*server->staging));
	kr_server_on(server, KR_MSG_STAGE, handle_stage, 0);
}
