/* STAGE: the server asks every node of the ring to PREFETCH the file, and adds their answers up (see staging.h).
 * WHERE: the server asks them what they HOLD of the file, and lists their answers.
 *
 * Nothing is kept between two STAGEs of a file.  A node answers PREFETCH within the time that STAGE allows, with what
 * it has by then, and goes on by itself.  So nothing is left when the program does not ask again.
 *
 * One STAGE or WHERE is a callback to every node.  So a session has at most KR_SESSION_PREFETCHES of them, and all
 * sessions KR_SERVER_PREFETCHES, give or take one request.  Other requests wait; next comes the session that has waited
 * longest.
 */
#include "server/pipelines/staging.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "server/export/export.h"
#include "server/leases/attrs.h"
#include "server/session/open_rights.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/session/trust.h"

struct staging {
	struct kr_request *request;
	struct kr_list asks; /* unanswered */
	struct kr_stage_reply reply;
	char node[256];                /* reply.node: the first that failed */
	struct kr_holds_request holds; /* of WHERE ... */
	struct kr_writer holders;      /* ... and its reply.nodes */
};

struct stage_request {
	struct kr_link link;
	struct staging *staging;
	struct kr_session *session; /* lives while its callback is unanswered */
	uint64_t ask;
};

static void free_staging(void *state)
{
	struct staging *staging = state;

	kr_writer_fini(&staging->holders);
	free(staging);
}

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

static void add_holder(struct staging *staging, const struct kr_session *session, const struct kr_holds_reply *answer)
{
	size_t length = strlen(session->name);

	if ((!answer->cached && !answer->unflushed) || staging->holders.length + length + 17 > KR_XATTR_MAX)
		return;
	kr_put_u8(&staging->holders, (uint8_t)length);
	kr_put_bytes(&staging->holders, session->name, length);
	kr_put_u64(&staging->holders, KR_MIN(answer->cached, staging->holds.size));
	kr_put_u64(&staging->holders, answer->unflushed);
}

static void start_next(struct kr_server *server);

static void end(struct staging *staging)
{
	struct kr_server *server = staging->request->server;

	struct kr_where_reply where = {
		.size = staging->holds.size, .nodes = {staging->holders.bytes, (uint32_t)staging->holders.length}};
	bool stages = staging->request->type == KR_MSG_STAGE;

	staging->reply.node = staging->node;
	staging->request->cancel = NULL;
	kr_request_reply(staging->request, 0, stages ? (void *)&staging->reply : &where, NULL, 0);
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

static void answered(struct kr_session *session, void *context, int err, const void *message)
{
	struct stage_request *ask = context;
	struct staging *staging = ask->staging;

	forget_ask(ask);
	if (staging->request->type == KR_MSG_WHERE) {
		if (!err)
			add_holder(staging, session, message);
	} else if (err) {
		add_failure(staging, session, err);
	} else {
		add_answer(staging, session, message);
	}
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

/* Sends MSG, of TYPE, to the node of SESSION. */
static void ask_node(struct staging *staging, struct kr_session *session, uint16_t type, const void *msg)
{
	struct stage_request *ask = kr_xcalloc(1, sizeof(*ask));

	ask->staging = staging;
	ask->session = session;
	ask->ask = kr_callback_send(session, type, msg, answered, ask);
	if (!ask->ask) {
		free(ask);
		return;
	}
	staging->reply.nodes++;
	staging->request->session->staging.asked++;
	session->server->staging->prefetches++;
	kr_list_append(&staging->asks, &ask->link);
}

static void ask_to_bring(struct staging *staging, struct kr_session *session)
{
	const struct kr_stage_request *msg = &staging->request->msg.stage_request;
	struct kr_prefetch_request prefetch = {.file = msg->file, .ms = KR_MIN(msg->ms, session->server->lease_ms / 4)};

	/* The node prefetches for the user who has the file open at the asking node. */
	if (kr_trust_confined(session))
		kr_open_rights_add(&session->trust.open_rights, &msg->file, KR_OPEN_RIGHT_READ);
	ask_node(staging, session, KR_MSG_PREFETCH, &prefetch);
}

static void leave_queue(struct kr_request *request)
{
	kr_list_remove(&request->wait);
	request->server->staging->waiting--;
}

static void start(struct kr_request *request)
{
	struct staging *staging = request->state;
	struct kr_session *session;

	KR_LIST_FOR_EACH(session, &request->server->sessions->living, link) {
		if (!takes_part(session, request->session))
			continue;
		if (request->type == KR_MSG_STAGE)
			ask_to_bring(staging, session);
		else
			ask_node(staging, session, KR_MSG_HOLDS, &staging->holds);
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

/* Puts the request at the end of its session's queue. */
static void enter_queue(struct kr_request *request)
{
	request->cancel = leave_queue;
	kr_list_append(&request->session->staging.waiting, &request->wait);
	request->server->staging->waiting++;
	start_next(request->server);
}

static struct staging *make_staging(struct kr_request *request)
{
	struct staging *staging = kr_xcalloc(1, sizeof(*staging));

	staging->request = request;
	staging->reply.room = UINT64_MAX;
	kr_list_init(&staging->asks);
	kr_writer_init(&staging->holders);
	request->state = staging;
	request->free_state = free_staging;
	return staging;
}

static void handle_stage(struct kr_request *request)
{
	if (!kr_open_rights_allow(request, &request->msg.stage_request.file, KR_OPEN_RIGHT_READ))
		return;
	make_staging(request);
	enter_queue(request);
}

/* --- WHERE ------------------------------------------------------------------------------------ */

static void ask_where(struct kr_request *request, const struct kr_attr *attr)
{
	int err = !attr ? request->err : S_ISREG(attr->mode) ? 0 : -ENODATA;

	if (!err && request->session->dead) /* its queue is gone */
		err = -ENOTCONN;
	if (err) {
		kr_request_reply(request, err, NULL, NULL, 0);
		return;
	}
	make_staging(request)->holds = (struct kr_holds_request){
		.file = request->msg.where_request.file, .version = attr->version, .size = attr->size};
	enter_queue(request);
}

static void run_may_read(struct kr_request *request)
{
	const struct kr_where_request *msg = &request->msg.where_request;

	request->err = kr_export_access(request->server->export, &msg->cred, &msg->file, R_OK);
}

static void may_read(struct kr_request *request)
{
	if (request->err)
		kr_request_reply_job(request);
	else
		kr_attrs_get(request, &request->msg.where_request.file, false, ask_where);
}

static void handle_where(struct kr_request *request)
{
	kr_request_run(request, run_may_read, may_read);
}

void kr_staging_fini(struct kr_server *server)
{
	free(server->staging);
}

void kr_staging_register(struct kr_server *server)
{
	server->staging = kr_xcalloc(1, sizeof(*server->staging));
	kr_server_on(server, KR_MSG_STAGE, handle_stage, 0);
	kr_server_on(server, KR_MSG_WHERE, handle_where, 0);
}
